import { expect, it } from 'vitest';
import { decisionsAbout, type Finding } from '../src/hosted/api';

const finding = (kind: Finding['kind'], name?: string): Finding => ({
  id: '1',
  kind,
  sentence: '',
  ...(name !== undefined && { name }),
});

it('offers to delete only what this appliance does not know, by its name', () => {
  expect(decisionsAbout(finding('unknown', 'a'))).toContain('delete');
  expect(decisionsAbout(finding('unknown'))).not.toContain('delete');
  for (const kind of ['newer', 'foreign', 'gone'] as const) {
    expect(decisionsAbout(finding(kind, 'a'))).toEqual(['adopt', 'ignore']);
  }
});
