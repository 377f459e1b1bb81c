import { describe, expect, it } from 'vitest';
import { describeSize, downloadCommand, isBeingComputed } from '../src/image/facts';

const facts = {
  url: 'http://192.0.2.2/full.iso',
  file_name: 'discovery.iso',
  size_bytes: 1_288_490_189,
  sha256: 'ab'.repeat(32),
  etag: '"e"',
  type: 'full-iso',
};

describe('describeSize', () => {
  it('says gibibytes, the exact bytes and the kind', () => {
    expect(describeSize(facts)).toBe('1.2 GiB (1,288,490,189 bytes), full image');
  });

  it('says mebibytes of a small image', () => {
    expect(describeSize({ ...facts, size_bytes: 104_857_600, type: 'minimal-iso' })).toBe(
      '100.0 MiB (104,857,600 bytes), minimal image',
    );
  });

  it('leaves out a kind that is not said', () => {
    expect(describeSize({ ...facts, type: '' })).toBe('1.2 GiB (1,288,490,189 bytes)');
  });
});

describe('downloadCommand', () => {
  it('goes on where a download broke off', () => {
    expect(downloadCommand('discovery.iso', facts.url)).toBe(
      "curl -fL -C - -o 'discovery.iso' 'http://192.0.2.2/full.iso'",
    );
  });

  it('checks the digest once it is known', () => {
    expect(downloadCommand('d.iso', facts.url, facts.sha256)).toContain(
      `&& echo '${facts.sha256}  d.iso' | sha256sum -c`,
    );
  });

  it('keeps a name from being read as shell', () => {
    expect(downloadCommand("a'; rm -rf b", facts.url)).toContain(`'a'\\''; rm -rf b'`);
  });
});

describe('isBeingComputed', () => {
  it('asks again until the digest is there', () => {
    expect(isBeingComputed(undefined)).toBe(true);
    expect(isBeingComputed({ ...facts, sha256: '' })).toBe(true);
    expect(isBeingComputed(facts)).toBe(false);
  });
});
