"""Tables, as text in columns and as markdown."""


def text(title, head, rows):
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
    return "\n".join([title, *lines, ""])


def markdown(title, head, rows):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(["## " + title, "", *lines, ""])
