"""The paper again: one file per table or figure, each a command (`enlcn reproduce NAME`), and one report of all.

`paper` holds the paper's figures, `preset` how much smaller a miniature is, `rows` which run stands behind which row;
`material` and `workers` train, `store` keeps what was found, `items` lists the tables and figures, `report` shows them.
"""
