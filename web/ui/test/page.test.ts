import { describe, expect, it } from 'vitest';
import { shownPage } from '../src/live/page';

describe('shownPage', () => {
  it.each([
    ['/', { name: 'list' }],
    ['/assisted-installer/clusters', { name: 'list' }],
    ['/assisted-installer/clusters/', { name: 'list' }],
    ['/assisted-installer/clusters/~new', { name: 'new' }],
    ['/assisted-installer/clusters/~new/', { name: 'new' }],
    ['/assisted-installer/clusters/4f63', { name: 'cluster', clusterId: '4f63' }],
    ['/assisted-installer/clusters/4f63/', { name: 'cluster', clusterId: '4f63' }],
  ])('reads %s', (path, page) => {
    expect(shownPage(path)).toEqual(page);
  });
});
