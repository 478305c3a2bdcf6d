"""How the names of tables and databases end. Nothing heavy is imported here."""

TEXT = (".csv", ".tsv", ".txt", ".tab", ".data", ".dat", ".arff")  # packed by gzip, too
CSV = (*TEXT, *(f"{each}.gz" for each in TEXT))
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
DATABASE = (".duckdb", ".db", ".sqlite", ".sqlite3")
TABLES = f"{', '.join(TEXT)} (also .gz), {PARQUET[0]}, {ARROW[0]}"  # in words
