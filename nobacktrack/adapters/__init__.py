"""The learners of this library as models of others: `adapters.river`, `adapters.sklearn`."""
