import type { Hole } from './api';

/** Groups warnings of the same kind and severity; errors come first. */
export const kindsOf = (holes: readonly Hole[]): [Hole, ...Hole[]][] => {
  const groups = new Map<string, [Hole, ...Hole[]]>();
  for (const hole of [...holes].sort((a, b) => Number(b.grave) - Number(a.grave))) {
    const key = `${hole.kind} ${String(hole.grave)}`;
    const group = groups.get(key);
    if (group) {
      group.push(hole);
    } else {
      groups.set(key, [hole]);
    }
  }
  return [...groups.values()];
};
