// Takes screenshots of the ten main pages of a demo, in three widths and two themes, and the
// pictures of the README.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openBrowser } from './browser.mjs';
import { prepareClusters, until } from './clusters.mjs';
import { writeHostedConfig } from './hostedconfig.mjs';
import { fileLimit, startSite } from './site.mjs';

const widths = [1440, 1024, 800];
const themes = ['light', 'dark'];

describe('screenshots', { timeout: fileLimit }, () => {
  let site;
  let browser;
  const clusters = {};

  before(async () => {
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'page');
    const { ready } = await prepareClusters(site);
    clusters.ready = (await ready('north', { first: 11 })).id;
    const isInstalled = ({ status }) => status === 'installed';
    await until('the demo has installed its cluster', async () => (await site.get('/v2/clusters')).some(isInstalled));
    clusters.installed = (await site.get('/v2/clusters')).find(isInstalled).id;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  const pages = {
    overview: () => '/',
    clusters: () => '/assisted-installer/clusters',
    installation: () => `/assisted-installer/clusters/${clusters.installed}`,
    review: () => `/assisted-installer/clusters/${clusters.ready}`,
    hosts: () => '/hosts',
    servers: () => '/servers',
    'os-images': () => '/os-images',
    networks: () => '/networks',
    mirror: () => '/mirror',
    settings: () => '/settings',
  };

  for (const [name, path] of Object.entries(pages)) {
    it(name, async () => {
      const { page, screenshot } = browser;
      for (const colorScheme of themes) {
        await page.emulateMedia({ colorScheme });
        await page.goto(site.url + path());
        await page.locator('h1').first().waitFor();
        await page.getByRole('progressbar').first().waitFor({ state: 'detached' });
        for (const width of widths) {
          await page.setViewportSize({ width, height: 1000 });
          await screenshot(`${name}-${String(width)}-${colorScheme}`);
        }
      }
    });
  }
});

describe('pictures of the README', { timeout: fileLimit }, () => {
  const picture = async (page, url, name, height, isShown) => {
    await page.setViewportSize({ width: 1440, height });
    await page.goto(url);
    await isShown();
    await page.getByRole('progressbar', { name: /^(Loading|Reading)/ }).first().waitFor({ state: 'detached' });
    await page.screenshot({ path: fileURLToPath(new URL(`../../../docs/${name}.png`, import.meta.url)) });
  };

  it('an installation and its hosts', async () => {
    const site = await startSite({ hosts: 3 });
    const browser = await openBrowser(site.url, 'readme');
    const { page } = browser;
    const cluster = async () => (await site.get('/v2/clusters'))[0];
    const share = async () => (await cluster())?.progress?.total_percentage ?? 0;
    await until('half of the installation is done', async () => (await share()) >= 45);
    const url = `${site.url}/assisted-installer/clusters/${(await cluster()).id}`;
    await picture(page, url, 'page-progress', 900, () => page.getByText('running for').waitFor());
    await until('the cluster is installed', async () => (await cluster()).status === 'installed');
    await picture(page, url, 'page', 900, () => page.getByText('Installed').first().waitFor());
    await picture(page, `${site.url}/hosts`, 'page-hosts', 560, () => page.getByText('host-3').waitFor());
    await browser.close();
    await site.end();
  });

  it('a hosted cluster', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'landfall-screenshots-'));
    const site = await startSite({ serve: ['--config', await writeHostedConfig(directory), '--tls-enabled=true'] });
    const browser = await openBrowser(site.url, 'readme');
    const { page } = browser;
    const hosted = '/api/landfall/v1/hosted';
    await site.send('POST', `${hosted}/management-clusters?force=true`, {
      ...{ consumer: 'mc1', base_domain: 'hosted.example.com', publish: 'NodePort', address: '192.0.2.10' },
      ...{ profiles: ['large'], agent_image: 'registry.example.com/maestro:v1' },
    });
    const agent = await site.send('GET', `${hosted}/management-clusters/mc1/agent`);
    const manifests = join(directory, 'agent.yaml');
    await writeFile(manifests, await agent.text());
    const pool = { name: 'workers', profile: 'large', replicas: 2 };
    await site.send('POST', `${hosted}/clusters`, { name: 'edge1', version: '4.19.7', node_pools: [pool] });
    site.simulate('management-cluster', manifests);
    const available = page.getByRole('row').filter({ hasText: 'Succeeded' }).filter({ hasText: '2 of 2' });
    await picture(page, `${site.url}/hosted`, 'page-hosted', 660, () => available.waitFor({ timeout: 60_000 }));
    await browser.close();
    await site.end();
    await rm(directory, { recursive: true, force: true });
  });
});
