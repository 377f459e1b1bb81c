import { describe, expect, it } from 'vitest';
import { isArriving, type OsImage } from '../src/osimages/api';
import {
  describeBoots,
  describeSource,
  describeUpload,
  isMoving,
  shareOf,
  whyNotRemovable,
} from '../src/osimages/describe';
import type { UploadState, UploadView } from '../src/osimages/upload';
import { isCoreOS, isDigest, isVersion, readVolumeId, versionOf } from '../src/osimages/volume';

const view = (state: UploadState, more: Partial<UploadView> = {}): UploadView => ({
  key: 'key',
  id: 'id',
  name: 'live.iso',
  size: 1024 ** 3,
  sent: 256 * 1024 ** 2,
  speed: 0,
  message: '',
  state,
  ...more,
});

describe('describeUpload', () => {
  it.each<[UploadState, Partial<UploadView>, string]>([
    ['sending', {}, '256.0 MiB of 1.0 GiB'],
    ['sending', { speed: 64 * 1024 ** 2 }, '256.0 MiB of 1.0 GiB, 64.0 MiB/s, 12 s left'],
    [
      'waiting',
      { message: 'The appliance does not respond.' },
      'The appliance does not respond. The upload resumes automatically; 256.0 MiB of 1.0 GiB arrived.',
    ],
    ['paused', {}, 'Paused; 256.0 MiB of 1.0 GiB arrived.'],
    ['elsewhere', {}, 'Another tab or window of this browser has this upload; 256.0 MiB of 1.0 GiB arrived.'],
    ['unfinished', {}, '256.0 MiB of 1.0 GiB arrived before this page was left. Choose the same file to resume.'],
    ['unfinished', { message: 'b.iso is another file.' }, 'b.iso is another file.'],
    ['checking', {}, 'The appliance is checking the file.'],
    ['failed', { message: 'It is no ISO.' }, 'It is no ISO.'],
    ['done', {}, 'Uploaded, 1.0 GiB.'],
  ])('%s (%j): %s', (state, more, sentence) => {
    expect(describeUpload(view(state, more))).toBe(sentence);
  });
});

describe('shareOf', () => {
  it('progress of all active uploads', () => {
    expect(shareOf([view('sending'), view('waiting', { sent: 1024 ** 3 }), view('paused')])).toBe(62);
    expect(shareOf([view('paused'), view('done')])).toBeUndefined();
  });
});

describe('describeBoots', () => {
  it('firmware, media and network', () => {
    expect(describeBoots({ boots: ['BIOS CD', 'BIOS USB', 'UEFI CD', 'UEFI USB'], network_boot: true })).toBe(
      'BIOS and UEFI, as CD and USB stick, over the network',
    );
    expect(describeBoots({ boots: ['UEFI CD'], network_boot: false })).toBe('UEFI, as CD');
    expect(describeBoots({ boots: null, network_boot: false })).toBe('');
  });
});

describe('describeSource', () => {
  it.each<[Partial<OsImage>, string]>([
    [{ source: 'file', path: '/srv/live.iso' }, 'the file /srv/live.iso'],
    [{ source: 'url', url: 'https://mirror.site.test/live.iso' }, 'https://mirror.site.test/live.iso'],
    [{ source: 'url' }, 'a URL'],
    [{ source: 'import', name: 'live.iso' }, 'live.iso, uploaded or imported'],
    [{ source: 'import' }, 'uploaded or imported'],
    [{ source: 'payload', release: 'quay.io/r@sha256:1' }, 'the release quay.io/r@sha256:1'],
    [{ source: 'payload' }, 'a release'],
  ])('%j: %s', (image, text) => {
    expect(describeSource(image as OsImage)).toBe(text);
  });
});

describe('isArriving', () => {
  it('true for an incomplete upload', () => {
    expect(isArriving({ source: 'import', state: 'waiting' } as OsImage)).toBe(true);
    expect(isArriving({ source: 'import', state: 'ready' } as OsImage)).toBe(false);
    expect(isArriving({ source: 'url', state: 'downloading' } as OsImage)).toBe(false);
  });
});

describe('whyNotRemovable', () => {
  const image = { removable: false, source: 'import', in_use_by: 0 } as OsImage;
  it.each<[Partial<OsImage>, RegExp]>([
    [{ removable: true }, /^$/],
    [{ in_use_by: 1 }, /^1 infra-env uses the image\.$/],
    [{ in_use_by: 2 }, /^2 infra-envs use the image\.$/],
    [{ configured: true, in_use_by: 2 }, /configuration file/],
    [{}, /in use/],
  ])('%j: %s', (facts, sentence) => {
    expect(whyNotRemovable({ ...image, ...facts })).toMatch(sentence);
  });
});

describe('isMoving', () => {
  const of = (state: OsImage['state']) => [{ state } as OsImage];
  it('true while an image changes', () => {
    expect(isMoving(undefined)).toBe(true);
    expect(isMoving(of('verifying'))).toBe(true);
    expect(isMoving(of('ready'))).toBe(false);
    expect(isMoving(of('bad'))).toBe(false);
  });
});

describe('readVolumeId', () => {
  const iso = (magic: string, id: string) => {
    const block = new Uint8Array(18 * 2048);
    const write = (text: string, offset: number) => {
      block.set(new TextEncoder().encode(text), offset);
    };
    write(magic, 16 * 2048);
    write(id.padEnd(32), 16 * 2048 + 40);
    return new Blob([block]);
  };

  it('volume id of an ISO', async () => {
    expect(await readVolumeId(iso('\u0001CD001\u0001', 'rhcos-9.6.20250523-0'))).toBe('rhcos-9.6.20250523-0');
  });

  it.each([
    ['another kind of file', iso('\u007FELF', 'x')],
    ['a descriptor of another type', iso('\u0002CD001\u0001', 'x')],
    ['an empty file', new Blob([])],
    ['a file that ends early', iso('\u0001CD001\u0001', 'x').slice(0, 16 * 2048 + 60)],
  ])('undefined for %s', async (_, file) => {
    expect(await readVolumeId(file)).toBeUndefined();
  });
});

describe('isCoreOS', () => {
  it.each(['rhcos-9.6.20250523-0', 'rhcos-418.94.202501221327-0', 'fedora-coreos-41.20250105.3.0', 'scos-10.0'])(
    'true for %s',
    (id) => {
      expect(isCoreOS(id)).toBe(true);
    },
  );
  it('false for other volume ids', () => {
    expect(isCoreOS('RHEL-9-5-0-BaseOS-x86_64')).toBe(false);
  });
});

describe('versionOf', () => {
  it.each([
    ['rhcos-418.94.202501221327-0', '4.18'],
    ['scos-49.0.1', '4.9'],
    ['rhcos-9.6.20250523-0', undefined],
    ['rhcos-10.1.20260101-0', undefined],
    ['fedora-coreos-41.20250105.3.0', undefined],
    ['', undefined],
  ])('version of %s', (id, version) => {
    expect(versionOf(id)).toBe(version);
  });
});

describe('isVersion', () => {
  it('two or three numbers', () => {
    expect(['4.20', '4.20.8', '4.21.0-rc.1'].every(isVersion)).toBe(true);
    expect(['', '4', '4.', 'four', '4.20.8.1'].some(isVersion)).toBe(false);
  });
});

describe('isDigest', () => {
  it('64 hexadecimal digits', () => {
    expect(isDigest('aB'.repeat(32))).toBe(true);
    expect(isDigest('ab'.repeat(31))).toBe(false);
    expect(isDigest('gg'.repeat(32))).toBe(false);
  });
});
