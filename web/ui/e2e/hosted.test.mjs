// A hosted cluster from its request to its deletion. Its management cluster is a stand-in, which
// connects to the real broker; no control plane runs.

import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { writeHostedConfig } from './hostedconfig.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;

describe('hosted clusters', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let directory;
  let disconnect;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading } = controls(() => page);
  const field = (name) => page.getByRole('textbox', { name });
  const table = (name) => page.getByRole('grid', { name });
  const row = (text) => table('Hosted clusters').getByRole('row').filter({ hasText: text });
  const choose = async (name, action) => {
    await table(name).getByRole('button', { name: 'Kebab toggle' }).click();
    await page.getByRole('menuitem', { name: action }).click();
  };
  const download = async (name, click) => {
    const saved = page.waitForEvent('download', { timeout: minute });
    await click();
    const path = join(directory, name);
    await (await saved).saveAs(path);
    return { path, text: await readFile(path, 'utf8') };
  };

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'landfall-e2e-hosted-'));
    site = await startSite({ serve: ['--config', await writeHostedConfig(directory), '--tls-enabled=true'] });
    browser = await openBrowser(site.url, 'hosted');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
    await rm(directory, { recursive: true, force: true });
  });

  step('creates a hosted cluster before there is a management cluster', async () => {
    await page.goto(`${site.url}/hosted`);
    await heading('No hosted clusters').waitFor();
    await button('Create a hosted cluster').click();
    await field('Name').fill('Edge1');
    await button('More').click();
    await field('Hardware profile of the nodes').fill('large');
    await button('Create').click();
    await row('Edge1').filter({ hasText: 'No management cluster is set up at this site yet.' }).waitFor();
  });

  step('waits for the management cluster, which is not connected', async () => {
    await button('Use a cluster for control planes').click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('mc1');
    await field('Base domain').fill('hosted.example.com');
    await field('Address of the nodes').fill('192.0.2.10');
    await field('Hardware profiles').fill('large');
    await field('Image of the agent').fill('registry.example.com/maestro:v1');
    await button('Check and use it').click();
    await page.getByText('The cluster was not checked').waitFor();
    await button('Use it all the same').click();
    await table('Management clusters').getByText('not connected, last seen: never').waitFor();
    await table('Management clusters').getByText('flat', { exact: true }).waitFor();
    await row('Edge1').filter({ hasText: 'Accepted' }).filter({ hasText: 'mc1 is not connected' }).waitFor();
  });

  step('uses another cluster with nested bundles', async () => {
    await button('Use a cluster for control planes').click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('mc2');
    await field('Base domain').fill('other.example.com');
    await page.getByRole('combobox', { name: 'Layout of its bundles' }).selectOption('Nested');
    await button('Check and use it').click();
    await button('Use it all the same').click();
    await table('Management clusters').getByText('nested', { exact: true }).waitFor();
    await browser.screenshot('nested');
    await site.send('DELETE', '/api/landfall/v1/hosted/management-clusters/mc2');
    await table('Management clusters').getByText('mc2').waitFor({ state: 'detached' });
  });

  step('connects the management cluster', async () => {
    const action = 'Download the manifests of its agent';
    const manifests = await download('agent.yaml', () => choose('Management clusters', action));
    assert.match(manifests.text, /appliedmanifestwork-eviction-grace-period=876000h/);
    disconnect = site.simulate('management-cluster', manifests.path);
    await table('Management clusters')
      .getByText(/^connected since/)
      .waitFor({ timeout: minute });
  });

  step('the hosted cluster is available', async () => {
    const available = row('Edge1').filter({ hasText: 'Succeeded' });
    await available.filter({ hasText: '2 of 2' }).waitFor({ timeout: minute });
    await row('Edge1').getByRole('button', { name: 'Details' }).click();
    const record = page.getByLabel('DNS record of api.edge1.hosted.example.com', { exact: true });
    assert.equal(await record.inputValue(), 'api.edge1.hosted.example.com. IN A 192.0.2.10');
    await table('Bundles').getByText('applied').first().waitFor();
  });

  step('shows the state whole in a narrow window', async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 320, height: 800 });
    const state = row('Edge1').getByText('Succeeded', { exact: true });
    const { left, right, isCut } = await state.evaluate((text) => {
      const box = text.getBoundingClientRect();
      return { left: box.left, right: box.right, isCut: text.scrollWidth > text.clientWidth };
    });
    assert.ok(left >= 0 && right <= 320, `from ${String(left)} to ${String(right)}`);
    assert.ok(!isCut);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 320));
    await browser.screenshot('narrow');
    await page.setViewportSize(size);
  });

  step('scales the node pool', async () => {
    const pool = page.getByTestId('pool-workers');
    await pool.getByRole('spinbutton').fill('3');
    await pool.getByRole('button', { name: 'Scale' }).click();
    await row('Edge1').filter({ hasText: '3 of 3' }).waitFor({ timeout: minute });
  });

  step('downloads a kubeconfig', async () => {
    const kubeconfig = await download('edge1.kubeconfig', () => button('Download a kubeconfig').click());
    assert.match(kubeconfig.text, /server: https:\/\/api\.edge1\.hosted\.example\.com:\d+/);
    assert.match(kubeconfig.text, /client-key-data/);
  });

  // The management cluster of this test was not installed here, so the answers are stand-ins.
  // appliance/hosted/workers tests the real ones.
  step('offers hosts of the appliance as workers', async () => {
    const sent = [];
    const answer = { workers: [], hosts: [] };
    await page.route('**/api/landfall/v1/hosted', async (route) => {
      const response = await route.fetch();
      const overview = await response.json();
      overview.management_clusters[0].cluster_id = '11111111-1111-4111-8111-111111111111';
      await route.fulfill({ response, json: overview });
    });
    await page.route('**/management-clusters/mc1/workers', async (route) => {
      if (route.request().method() === 'PUT') {
        sent.push(route.request().postDataJSON());
        Object.assign(answer, sent.at(-1), {
          problem: 'The cluster does not answer.',
          hosts: [
            { id: 'h1', name: 'node-1', status: 'known-unbound', problem: 'Nobody has approved it.' },
            { id: 'h2', name: 'node-2', status: 'installing', cluster_deployment: 'ocm-1a2b-edge1/edge1' },
          ],
        });
      }
      await route.fulfill({ json: answer });
    });
    const infraEnvs = [
      { id: 'e1', name: 'rack1' },
      { id: 'e2', name: 'rack2', cluster_id: '11111111-1111-4111-8111-111111111111' },
    ];
    let isKnown = false;
    await page.route('**/v2/infra-envs', (route) =>
      isKnown ? route.fulfill({ json: infraEnvs }) : route.fulfill({ status: 500, json: { reason: 'Not now.' } }),
    );
    await page.reload();
    const card = page.getByTestId('workers-mc1');
    await card.getByText('come from its own assisted service').waitFor();
    await card.getByText('Not now.').waitFor();
    assert.ok(await card.getByRole('button', { name: 'Offer hosts of this appliance' }).isDisabled());
    isKnown = true; // the card asks again every ten seconds
    await card.getByRole('button', { name: 'Offer hosts of this appliance' }).click();
    await field('Hardware profile of the hosts in rack1').fill('large');
    assert.equal(await field('Hardware profile of the hosts in rack2').count(), 0);
    await button('Save').click();
    await card.getByText('offered from rack1 with the profile large').waitFor();
    assert.deepEqual(sent, [{ workers: [{ infra_env_id: 'e1', profile: 'large' }] }]);
    await card.getByText('The cluster does not answer.').waitFor();
    await table('Workers on mc1').getByText('Nobody has approved it.').waitFor();
    await table('Workers on mc1').getByText('ocm-1a2b-edge1/edge1').waitFor();
    await browser.screenshot('workers');
    await card.getByRole('button', { name: 'Change the offered hosts' }).click();
    await field('Hardware profile of the hosts in rack1').fill('');
    await button('Save').click();
    await card.getByText('come from its own assisted service').waitFor();
    assert.deepEqual(sent.at(-1), { workers: [] });
    await page.unrouteAll({ behavior: 'wait' });
    await page.reload();
    await row('Edge1').getByRole('button', { name: 'Details' }).click();
  });

  step('keeps a change while the management cluster is away', async () => {
    await disconnect();
    await table('Management clusters')
      .getByText(/^not connected/)
      .waitFor({ timeout: minute });
    await choose('Hosted clusters', 'Delete');
    await page.getByRole('dialog').getByText('happens when it is connected again').waitFor();
    await field('Type the name Edge1 to confirm').fill('Edge1');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete cluster' }).click();
    await row('Edge1').filter({ hasText: 'Deleting' }).waitFor();
  });

  step('deletes the hosted cluster when it is connected again', async () => {
    site.simulate('management-cluster', join(directory, 'agent.yaml'));
    await heading('No hosted clusters').waitFor({ timeout: minute });
  });

  step('sends nothing after a restore from a backup', async () => {
    const backup = join(directory, 'backup');
    await site.stop();
    await cp(site.data, backup, { recursive: true });
    await site.start();
    const created = await site.send('POST', '/api/landfall/v1/hosted/clusters', { name: 'edge2' });
    assert.equal(created.status, 201);
    await page.goto(`${site.url}/hosted`);
    await row('edge2').filter({ hasText: 'Succeeded' }).waitFor({ timeout: minute });
    await site.stop();
    await rm(site.data, { recursive: true });
    await cp(backup, site.data, { recursive: true });
    await site.start();
    await page.goto(`${site.url}/hosted`);
    await page.getByTestId('finding').nth(1).getByText(/^On the management cluster:/).waitFor({ timeout: minute });
    assert.equal(await page.getByTestId('finding').count(), 2);
  });

  step('deletes a bundle there by its name, and adopts the other one', async () => {
    const namespaces = page.getByTestId('finding').filter({ hasText: '-00-namespaces' });
    const control = page.getByTestId('finding').filter({ hasText: 'HostedCluster' });
    const name = await control.getByRole('heading').textContent();
    await control.getByRole('button', { name: 'Delete there' }).click();
    const dialog = page.getByRole('dialog');
    assert.ok(await dialog.getByRole('button', { name: 'Delete there' }).isDisabled());
    await field('Name of the bundle').fill(name);
    await dialog.getByRole('button', { name: 'Delete there' }).click();
    await control.waitFor({ state: 'detached' });
    await namespaces.getByRole('button', { name: 'Adopt' }).click();
    await page.getByTestId('held-mc1').waitFor({ state: 'detached' });
    assert.deepEqual(browser.errors, []);
    assert.deepEqual(browser.foreign, []);
  });
});
