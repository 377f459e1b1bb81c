import { describe, expect, it } from 'vitest';
import type { ImageFacts, Read, SealedState } from '../src/image/api';
import {
  announce,
  atNetwork,
  digestIn,
  describeSeal,
  describeSize,
  downloadCommand,
  fileNameOf,
  inOrder,
  isBeingComputed,
  sameOrigin,
  whyNoMinimal,
  whyNoNetworkBoot,
} from '../src/image/facts';

const facts: ImageFacts = {
  url: 'http://192.0.2.2/full.iso',
  file_name: 'discovery.iso',
  size_bytes: 1_288_490_189,
  sha256: 'ab'.repeat(32),
  etag: '"e"',
  type: 'full-iso',
};

describe('describeSeal', () => {
  const sealed: SealedState = { sealed: true, open: true, until: '2026-11-23T12:00:00Z', machines: 0, fetches: [] };

  it('not sealed', () => {
    const unsealed = { ...sealed, sealed: false, open: false, until: null };
    expect(describeSeal(unsealed)).toMatch(/^The image contains the config/);
  });

  it('open, without a limit of machines', () => {
    expect(describeSeal(sealed)).toMatch(/^The image is sealed\. Machines can fetch its config until .*2026/);
    expect(describeSeal(sealed)).not.toMatch(/at most/);
  });

  it('open for some machines', () => {
    expect(describeSeal({ ...sealed, machines: 3 })).toMatch(/, at most 3\.$/);
  });

  it('closed', () => {
    expect(describeSeal({ ...sealed, open: false })).toBe('The image is sealed, and no machine can fetch its config.');
  });
});

describe('describeSize', () => {
  it('gibibytes, exact bytes and kind', () => {
    expect(describeSize(facts)).toBe('1.2 GiB (1,288,490,189 bytes), full image');
  });

  it('mebibytes for a small image', () => {
    expect(describeSize({ ...facts, size_bytes: 104_857_600, type: 'minimal-iso' })).toBe(
      '100.0 MiB (104,857,600 bytes), minimal image',
    );
  });

  it('omits an unknown kind', () => {
    expect(describeSize({ ...facts, type: '' })).toBe('1.2 GiB (1,288,490,189 bytes)');
  });
});

describe('downloadCommand', () => {
  it('resumes a download', () => {
    expect(downloadCommand('discovery.iso', facts.url)).toBe(
      "curl -fL -C - -o 'discovery.iso' 'http://192.0.2.2/full.iso'",
    );
  });

  it('verifies a known digest', () => {
    expect(downloadCommand('d.iso', facts.url, facts.sha256)).toContain(
      `&& echo '${facts.sha256}  d.iso' | sha256sum -c`,
    );
  });

  it('quotes names for the shell', () => {
    expect(downloadCommand("a'; rm -rf b", facts.url)).toContain(`'a'\\''; rm -rf b'`);
  });
});

describe('isBeingComputed', () => {
  it('until the digest is known', () => {
    expect(isBeingComputed(undefined)).toBe(true);
    expect(isBeingComputed({ ...facts, sha256: '' })).toBe(true);
    expect(isBeingComputed(facts)).toBe(false);
  });
});

describe('whyNoMinimal', () => {
  it('empty if unknown or if there is one', () => {
    expect(whyNoMinimal(undefined)).toBe('');
    expect(whyNoMinimal({ ...facts, minimal: { url: 'http://x' } })).toBe('');
  });

  it('gives the reason or a default', () => {
    expect(whyNoMinimal({ ...facts, minimal: { reason: 'It has no table.' } })).toBe('It has no table.');
    expect(whyNoMinimal(facts)).toMatch(/minimal/);
  });
});

describe('whyNoNetworkBoot', () => {
  it('gives the reason or a default', () => {
    const boot = { reason: 'It has no kernel.' };
    expect(whyNoNetworkBoot(undefined)).toBe('');
    expect(whyNoNetworkBoot({ ...facts, network_boot: { ...boot, kernel_url: 'http://x' } })).toBe('');
    expect(whyNoNetworkBoot({ ...facts, network_boot: boot })).toBe('It has no kernel.');
    expect(whyNoNetworkBoot(facts)).toMatch(/network/);
  });
});

describe('fileNameOf', () => {
  it('contains the kind', () => {
    expect(fileNameOf('a.iso', 'full')).toBe('a.iso');
    expect(fileNameOf('a.iso', 'minimal')).toBe('a-minimal.iso');
    expect(fileNameOf('a', 'minimal')).toBe('a-minimal.iso');
  });
});

describe('sameOrigin', () => {
  it('keeps path and query', () => {
    expect(sameOrigin('http://192.0.2.2:8090/i/c.iso?a=b', 'https://localhost:1')).toBe(
      'https://localhost:1/i/c.iso?a=b',
    );
    expect(sameOrigin('http://[', 'https://localhost')).toBe('http://[');
  });
});

describe('atNetwork', () => {
  const on = (base: string) => ({
    url: 'https://page',
    full: `${base}/byid/1/4.20/x86_64/full.iso`,
    minimal: '',
    short: '',
  });

  it('converts an address to the network', () => {
    expect(atNetwork('http://a:1/x/i/c.iso', on('http://a:1/x'), on('http://b'))).toBe('http://b/i/c.iso');
  });

  it('keeps unknown addresses', () => {
    expect(atNetwork('http://a/i/c.iso', undefined, undefined)).toBe('http://a/i/c.iso');
    expect(atNetwork('http://c/i/c.iso', on('http://a'), on('http://b'))).toBe('http://c/i/c.iso');
    expect(atNetwork('http://a/i/c.iso', { ...on('http://a'), full: '' }, on('http://b'))).toBe('http://a/i/c.iso');
  });
});

const read = (client: string, state: Read['state'], last = '2026-11-21T14:00:00Z'): Read => ({
  client,
  image: 'i',
  kind: 'full-iso',
  first_read: '2026-11-21T13:00:00Z',
  last_read: last,
  bytes: 0,
  share_percent: 0,
  segments: [],
  bytes_per_second: 0,
  ranges_per_second: 0,
  state,
  sentence: '',
});

describe('digestIn', () => {
  it('parses the output of sha256sum', () => {
    expect(digestIn(`${'ab'.repeat(32)}  a.iso\n`)).toBe('ab'.repeat(32));
    expect(digestIn('<html>')).toBe('');
  });
});

describe('inOrder', () => {
  it('current readers first, then the most recent', () => {
    const reads = [
      read('old', 'finished', '2026-11-21T14:00:00Z'),
      read('new', 'stopped', '2026-11-21T15:00:00Z'),
      read('now', 'reading', '2026-11-21T13:30:00Z'),
    ];
    expect(inOrder(reads).map(({ client }) => client)).toEqual(['now', 'new', 'old']);
  });
});

describe('announce', () => {
  it('announces new states only', () => {
    const before = [read('a', 'reading'), read('b', 'reading'), read('c', 'reading')];
    const after = [read('a', 'finished'), read('b', 'stopped'), read('c', 'reading'), read('d', 'reading')];
    expect(announce(before, after)).toBe(
      'a has read the parts that it needs. b has stopped reading. d reads the image',
    );
    expect(announce(after, after)).toBe('');
  });
});
