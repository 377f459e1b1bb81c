// The mock's images: base ISOs with uploads, the addresses of an infra-env's image, and machines
// that read it.

import { createHash, randomUUID } from 'node:crypto';

const gib = 1024 ** 3;
const noSuchUpload = [404, { code: 404, message: 'there is no such upload; start the upload again' }];

/** The content of every downloaded discovery ISO. */
export const image = Buffer.alloc(3 * 1024 ** 2, 'mock');
const digest = createHash('sha256').update(image).digest('hex');

const osImage = (facts) => ({
  id: randomUUID(),
  openshift_version: '4.20',
  cpu_architecture: 'x86_64',
  volume_id: 'rhcos-9.6.20250523-0',
  coreos_version: '9.6.20250523-0',
  size_bytes: Math.round(1.3 * gib),
  state: 'ready',
  message: '',
  done_bytes: 0,
  total_bytes: 0,
  source: 'import',
  path: '',
  sha256: digest,
  minimal: true,
  minimal_reason: '',
  network_boot: true,
  boots: ['BIOS CD', 'BIOS USB', 'UEFI CD', 'UEFI USB'],
  in_use_by: 0,
  removable: true,
  ...facts,
});

/**
 * Handles requests to /api/landfall/v1/os-images and /api/landfall/v1/infra-envs; returns undefined
 * for other paths.
 */
export const imageMock = ({ isEmpty = false } = {}) => {
  const uploads = new Map();
  const codes = new Map();
  const began = Date.now();
  let images = isEmpty
    ? []
    : [
        osImage({
          source: 'file',
          configured: true,
          path: '/srv/rhcos-4.20-x86_64-live.iso',
          in_use_by: 2,
          removable: false,
        }),
        osImage({
          cpu_architecture: 'arm64',
          boots: ['UEFI CD', 'UEFI USB'],
          minimal: false,
          minimal_reason:
            'The ISO has no table for it (coreos/miniso.dat). Upload the ISO again and let the appliance make one.',
        }),
        osImage({
          openshift_version: '4.19',
          state: 'downloading',
          source: 'url',
          configured: true,
          url: 'https://mirror.site.test/rhcos-4.19-live.iso',
          done_bytes: 0.5 * gib,
          total_bytes: 1.2 * gib,
          minimal: false,
          network_boot: false,
          boots: [],
          sha256: '',
          volume_id: '',
          coreos_version: '',
          size_bytes: 0,
        }),
        osImage({
          openshift_version: '4.18',
          state: 'bad',
          message: 'The file ends after 12 MiB; its volume descriptor says 1.1 GiB. Upload it again.',
          minimal: false,
          network_boot: false,
          boots: [],
        }),
      ];

  const osImages = (method, path, headers, body) => {
    if (path.length === 0 && method === 'GET') {
      const arriving = [...uploads.values()].map(({ id, facts, offset }) =>
        osImage({
          id,
          name: facts.name,
          state: 'waiting',
          message: 'The upload was interrupted.',
          done_bytes: offset,
          total_bytes: facts.size_bytes,
          size_bytes: 0,
          sha256: '',
          boots: [],
          minimal: false,
          network_boot: false,
        }),
      );
      return [200, { os_images: [...arriving, ...images] }];
    }
    if (path[0] === 'uploads') {
      return upload(method, path[1], headers, body);
    }
    const found = images.find(({ id }) => id === path[0]);
    if (!found) {
      return [404, { code: 404, message: 'there is no such OS image' }];
    }
    if (method === 'DELETE') {
      images = images.filter((one) => one !== found);
      return [204];
    }
    found.state = 'verifying';
    found.total_bytes = found.size_bytes;
    setTimeout(() => {
      found.state = 'ready';
    }, 2_000).unref();
    return [202, found];
  };

  const upload = (method, id, headers, body) => {
    if (method === 'POST') {
      const facts = JSON.parse(body.toString());
      const made = { id: randomUUID(), facts, offset: 0 };
      uploads.set(made.id, made);
      return [201, { id: made.id, offset_bytes: 0 }];
    }
    const found = uploads.get(id);
    if (!found) {
      return noSuchUpload;
    }
    const at = { 'Upload-Offset': String(found.offset) };
    if (method === 'HEAD' || method === 'GET') {
      return [200, undefined, at];
    }
    if (method === 'DELETE') {
      uploads.delete(id);
      return [204];
    }
    if (Number(headers['upload-offset']) !== found.offset) {
      return [409, { code: 409, message: `the upload has ${String(found.offset)} bytes` }, at];
    }
    found.offset += body.length;
    if (found.offset < found.facts.size_bytes) {
      return [204, undefined, { 'Upload-Offset': String(found.offset) }];
    }
    uploads.delete(id);
    const made = osImage({
      id,
      name: found.facts.name,
      size_bytes: found.offset,
      openshift_version: found.facts.openshift_version ?? '4.21',
    });
    images.push(made);
    return [201, made];
  };

  const facts = (id, type, url) => {
    const code = codes.get(id) ?? codes.set(id, 'k7q2m4x9t3w8z5bn').get(id);
    const computed = Date.now() - began > 5_000 ? digest : '';
    const kinds = (base) => ({
      url: base,
      full: `${base}/byid/${id}/4.20/x86_64/full.iso`,
      minimal: `${base}/byid/${id}/4.20/x86_64/minimal.iso`,
      short: `${base}/i/${code}.iso`,
    });
    const here = kinds(url);
    const minimal = type === 'minimal-iso';
    return {
      url: minimal ? here.minimal : here.full,
      file_name: 'discovery_image_mock.iso',
      size_bytes: image.length,
      sha256: computed,
      etag: '"mock"',
      type,
      revision: digest,
      modified: new Date(began).toISOString(),
      full: { url: here.full, size_bytes: image.length, etag: '"mock"', sha256: computed },
      minimal: { url: here.minimal, size_bytes: image.length, etag: '"mock-minimal"', sha256: computed },
      short_url: code ? here.short : '',
      short_url_expires: code ? new Date(began + 7 * 24 * 3_600_000).toISOString() : null,
      urls: [here, kinds('http://192.0.2.2:8090')],
      network_boot: {
        ipxe_url: `${url}/ipxe/${id}`,
        ipxe_script: 
          `#!ipxe\ninitrd --name initrd ${url}/images/${id}/pxe-initrd\n` +
          `kernel ${url}/boot-artifacts/kernel initrd=initrd ` +
          `ignition.firstboot ignition.platform.id=metal\nboot\n`,
        kernel_url: `${url}/boot-artifacts/kernel?version=4.20&arch=x86_64`,
        initrd_url: `${url}/images/${id}/pxe-initrd?version=4.20&arch=x86_64`,
        rootfs_url: `${url}/boot-artifacts/rootfs?version=4.20&arch=x86_64`,
        kernel_arguments: 'coreos.live.rootfs_url=… ignition.firstboot ignition.platform.id=metal',
        grub_url: `${url}/grub/${id}/grub.cfg`,
        http_boot_url: here.short,
      },
      config_image_url: `${url}/config/${id}.iso`,
    };
  };

  const shares = (share) => {
    const parts = ['boot loader', 'kernel', 'initrd', 'config', 'rootfs'];
    return parts.map((name, index) => ({
      name,
      share_percent: Math.max(0, Math.min(100, share * parts.length - index * 100)),
    }));
  };
  const reads = () => {
    const now = Date.now();
    const share = Math.min(100, (now - began) / 600);
    const read = (client, state, part, seconds, sentence, more) => ({
      client,
      image: digest,
      kind: 'full',
      first_read: new Date(began - 60_000).toISOString(),
      last_read: new Date(now - seconds * 1_000).toISOString(),
      bytes: Math.round(part * 0.01 * 1.3 * gib),
      share_percent: part,
      segments: shares(part),
      bytes_per_second: 0,
      ranges_per_second: 0,
      state,
      sentence,
      ...more,
    });
    return {
      reads: [
        read(
          '10.0.0.7',
          'stopped',
          68,
          40,
          '10.0.0.7 has read kernel and initrd, stopped 40 s ago in the rootfs at 38 %: link too slow or mount lost.',
        ),
        read(
          '10.0.0.8',
          share < 100 ? 'reading' : 'finished',
          share,
          0,
          `10.0.0.8 reads the image: ${share.toFixed(0)} %.`,
          { bytes_per_second: 11_300_000, ranges_per_second: 344 },
        ),
        read('10.0.0.9', 'finished', 100, 300, '10.0.0.9 has read all of the image in 60 s.'),
      ],
    };
  };

  return (method, pathname, headers, body, { url, typeOf }) => {
    const path = pathname.replace('/api/landfall/v1/', '').split('/');
    if (path[0] === 'os-images') {
      return osImages(method, path.slice(1), headers, body);
    }
    if (path[0] !== 'infra-envs') {
      return undefined;
    }
    const [, id, what] = path;
    switch (what) {
      case 'image':
        return [200, facts(id, typeOf(id), url)];
      case 'reads':
        return [200, isEmpty ? { reads: [] } : reads()];
      case 'short-url':
        codes.set(id, method === 'DELETE' ? '' : randomUUID().replaceAll('-', '').slice(0, 16));
        return method === 'DELETE'
          ? [204]
          : [200, { short_url: facts(id, typeOf(id), url).short_url, short_url_expires: null }];
      default:
        return undefined;
    }
  };
};
