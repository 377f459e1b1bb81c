import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { replacements } from '../build/replacements';

describe('docs/page.md', () => {
  it('gives the reason of each replaced module', () => {
    const text = readFileSync('../../docs/page.md', 'utf8');
    const documented = [...text.matchAll(/^\| `([\w/-]+\.tsx?)` \|/gm)].map(([, module]) => module);
    expect(documented.sort()).toEqual(Object.keys(replacements).sort());
  });
});
