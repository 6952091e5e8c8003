"""Files of others: XML, documents with entities, and the data of the tasks."""
