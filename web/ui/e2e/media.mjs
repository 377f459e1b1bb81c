// Media for the appliance's registry: OCI layouts as skopeo writes them.

import { createHash } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const configType = 'application/vnd.oci.image.config.v1+json';
const layerType = 'application/vnd.oci.image.layer.v1.tar';

/**
 * Writes an OCI layout with images of one layer each.
 * @param images their names, each with the bytes of its layer
 */
export const writeLayout = async (directory, images) => {
  const blobs = join(directory, 'blobs', 'sha256');
  await mkdir(blobs, { recursive: true });
  const put = async (mediaType, content) => {
    const hex = createHash('sha256').update(content).digest('hex');
    await writeFile(join(blobs, hex), content);
    return { mediaType, digest: `sha256:${hex}`, size: content.length };
  };
  const manifests = [];
  const layers = {};
  for (const [name, content] of Object.entries(images)) {
    const layer = await put(layerType, content);
    layers[name] = join(blobs, layer.digest.slice('sha256:'.length));
    const config = await put(
      configType,
      JSON.stringify({
        architecture: 'amd64',
        os: 'linux',
        rootfs: { type: 'layers', diff_ids: [layer.digest] },
      }),
    );
    const manifest = { schemaVersion: 2, mediaType: manifestType, config, layers: [layer] };
    manifests.push({
      ...(await put(manifestType, JSON.stringify(manifest))),
      annotations: { 'org.opencontainers.image.ref.name': name },
    });
  }
  await writeFile(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
  await writeFile(join(directory, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  return {
    /** Removes the layer of an image. */
    removeLayer: (name) => rm(layers[name]),
    /** Changes the layer of an image, so that it no longer matches its digest. */
    damageLayer: (name) => writeFile(layers[name], Buffer.alloc(images[name].length)),
  };
};

/** The bytes of a layer; two seeds give different ones. */
export const layer = (seed, size) => Buffer.alloc(size, `layer ${seed} `);
