import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from './site.mjs';

/** Writes the configuration of an appliance with hosted clusters, and returns its path. */
export const writeHostedConfig = async (directory) => {
  const secret = join(directory, 'pull-secret.json');
  await writeFile(secret, JSON.stringify({ auths: { 'registry.example.com': { auth: 'YTpi' } } }));
  const config = join(directory, 'landfall.json');
  await writeFile(
    config,
    JSON.stringify({
      release_images: [
        {
          openshift_version: '4.19.7',
          cpu_architecture: 'x86_64',
          url: 'registry.example.com/release:4.19.7-x86_64',
          default: true,
        },
      ],
      mirror: { pull_secret: secret },
      hosted: { enabled: true, broker_listen: `127.0.0.1:${String(await freePort())}` },
    }),
  );
  return config;
};
