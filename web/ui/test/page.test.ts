import { describe, expect, it } from 'vitest';
import { isLibraryPath, pageTitle, shownPage } from '../src/live/page';

describe('shownPage', () => {
  it.each([
    ['/', { name: 'list' }],
    ['/assisted-installer/clusters', { name: 'list' }],
    ['/assisted-installer/clusters/', { name: 'list' }],
    ['/assisted-installer/clusters/~new', { name: 'new' }],
    ['/assisted-installer/clusters/~new/', { name: 'new' }],
    ['/assisted-installer/clusters/4f63', { name: 'cluster', clusterId: '4f63' }],
    ['/assisted-installer/clusters/4f63/', { name: 'cluster', clusterId: '4f63' }],
  ])('page at %s', (path, page) => {
    expect(shownPage(path)).toEqual(page);
  });
});

describe('isLibraryPath', () => {
  it.each([
    ['/assisted-installer', true],
    ['/assisted-installer/clusters/', true],
    ['/assisted-installer/clusters/~new', true],
    ['/assisted-installer/clusters/~new/4f63', true],
    ['/assisted-installer/clusters/4f63', true],
    ['/assisted-installer/clusters/4f63/hosts', false],
    ['/assisted-installer/hosts', false],
    ['/clusters', false],
  ])('library at %s: %s', (path, isLibrary) => {
    expect(isLibraryPath(path)).toBe(isLibrary);
  });
});

describe('pageTitle', () => {
  it.each([
    ['the list', '/assisted-installer/clusters', 'Clusters · Landfall'],
    ['a new cluster', '/assisted-installer/clusters/~new', 'New cluster · Landfall'],
    ['a cluster', '/assisted-installer/clusters/4f63', 'harbour · Landfall'],
  ])('title of %s', (_, path, title) => {
    expect(pageTitle(shownPage(path), 'harbour')).toBe(title);
  });

  it("is the product's name without a cluster name", () => {
    expect(pageTitle({ name: 'cluster', clusterId: '4f63' })).toBe('Landfall');
  });
});
