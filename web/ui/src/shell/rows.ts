const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** Compares texts so that host-2 is before host-10. */
export const compareNatural = (a: string, b: string): number => collator.compare(a, b);

/** The rows in the natural order of their names, for a list from which a person chooses. */
export const byName = <T extends { name: string }>(rows: readonly T[]): T[] =>
  [...rows].sort((a, b) => compareNatural(a.name, b.name));

/**
 * Replaces the rows of objects that have changed. A changed object that the appliance no longer
 * lists was removed.
 */
export const mergeRows = <T extends { id: string }>(
  rows: T[],
  changed: string[],
  fresh: T[],
  keyOf: (row: T) => string,
): T[] => {
  const byKey = new Map(fresh.map((row) => [keyOf(row), row]));
  const ids = new Set(changed);
  const kept = rows.flatMap((row) => {
    const now = byKey.get(keyOf(row));
    byKey.delete(keyOf(row));
    return now ? [now] : ids.has(row.id) ? [] : [row];
  });
  return [...kept, ...byKey.values()];
};

export type Choice = { value: string; name: string; count: number };

/** The choices of a filter with their counts, in natural order. */
export const choicesOf = <T>(rows: T[], choice: (row: T) => { value: string; name: string }): Choice[] => {
  const found = new Map<string, Choice>();
  for (const row of rows) {
    const { value, name } = choice(row);
    const known = found.get(value) ?? { value, name, count: 0 };
    known.count += 1;
    found.set(value, known);
  }
  return [...found.values()].sort((a, b) => compareNatural(a.name, b.name));
};
