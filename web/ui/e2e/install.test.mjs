// The main task: from the wizard to the installed cluster's kubeconfig, in a real browser, with the
// built binary and simulated hosts. Each step builds on the previous steps.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const clusterName = 'harbour';
const manifest = (name) => `apiVersion: v1
kind: ConfigMap
metadata:
  name: ${name}
  namespace: default
`;

describe('installation of a cluster', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading, next, clusterId } = controls(() => page);
  const infraEnvId = async () => (await site.get(`/v2/infra-envs?cluster_id=${clusterId()}`))[0].id;

  const editor = (manifestNumber) => page.getByTestId(`yamlContent-${String(manifestNumber)}`);
  const manifestIsSaved = async (name) => {
    const files = `/api/assisted-install/v2/clusters/${clusterId()}/manifests/files`;
    const deadline = Date.now() + minute;
    let saved;
    do {
      assert.ok(Date.now() < deadline, `the manifest ${name} was not saved: ${String(saved)}`);
      await page.waitForTimeout(100);
      saved = await (await site.send('GET', `${files}?folder=manifests&file_name=${name}.yaml`)).text();
    } while (saved !== manifest(name));
  };

  before(async () => {
    site = await startSite();
    browser = await openBrowser(site.url);
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('shows the list of clusters', async () => {
    await page.goto(site.url);
    await page.getByRole('link', { name: 'Clusters', exact: true }).click();
    await page.waitForURL('**/assisted-installer/clusters');
    await page.waitForFunction(() => document.title === 'Clusters · Landfall');
    await page.getByRole('link', { name: 'Create cluster' }).waitFor();
  });

  step('shows the status of the appliance', async () => {
    await page.getByTestId('status').click();
    await page.getByTestId('status-facts').getByText('x86_64').first().waitFor();
  });

  step('creates a cluster in the wizard', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill(clusterName);
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.getByRole('checkbox', { name: /Include custom manifests/ }).check();
    await next();
    await heading('Operators').waitFor();
  });

  step('downloads the ISO with its size and digest', async () => {
    await next();
    await heading('Host discovery').waitFor();
    await page.getByRole('button', { name: 'Add hosts' }).click();
    await page.getByRole('button', { name: 'Generate Discovery ISO' }).click();
    await page.getByTestId('iso-sha256').waitFor({ timeout: minute });
    const digest = (await page.getByTestId('iso-sha256').innerText()).match(/[0-9a-f]{64}/)?.[0];
    const size = Number(
      (await page.getByTestId('iso-size').innerText()).match(/\(([\d,]+) bytes\)/)?.[1].replaceAll(',', ''),
    );
    const [download] = await Promise.all([
      page.waitForEvent('download', { timeout: minute }),
      page.getByTestId('download-iso-btn').click(),
    ]);
    const image = await readFile(await download.path());
    assert.match(download.suggestedFilename(), /\.iso$/);
    assert.equal(image.length, size);
    assert.equal(createHash('sha256').update(image).digest('hex'), digest);
  });

  step('shows new hosts until they are ready', async () => {
    await page.getByTestId('close-iso-btn').click();
    site.bootHosts(await infraEnvId(), 3);
    await button('Ready')
      .nth(2)
      .waitFor({ timeout: 2 * minute });
  });

  step("shows a host's validations", async () => {
    await button('Ready').first().click();
    await page.getByRole('dialog').getByText('Hardware', { exact: true }).waitFor();
    await browser.screenshot('the-validations-of-a-host');
    await page.keyboard.press('Escape');
  });

  step('shows the same page after a reload', async () => {
    await page.reload();
    await heading('Host discovery').waitFor();
    await button('Ready').nth(2).waitFor();
  });

  step('sets networks and addresses', async () => {
    await next();
    await heading('Storage').waitFor();
    await next();
    await heading('Networking').waitFor();
    const { host_networks: networks } = await site.get(`/v2/clusters/${clusterId()}`);
    const [net] = networks[0].cidr.split(/\.\d+\//);
    await page.getByRole('textbox', { name: /API IP/ }).fill(`${net}.200`);
    await page.getByRole('textbox', { name: /Ingress IP/ }).fill(`${net}.201`);
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Next', exact: true, disabled: false }).waitFor({ timeout: 2 * minute });
  });

  step('takes a manifest from a file', async () => {
    await next();
    await heading('Custom manifests').waitFor();
    await page.getByTestId('filename-0').fill('first.yaml');
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      button('Upload code', editor(0)).click(),
    ]);
    await chooser.setFiles({ name: 'a.yaml', mimeType: 'text/yaml', buffer: Buffer.from(manifest('first')) });
    const part = (text) => editor(0).locator('.view-line span').getByText(text, { exact: true }).first();
    const colour = (text) => part(text).evaluate((element) => getComputedStyle(element).color);
    await part('metadata').waitFor();
    assert.notEqual(await colour('metadata'), await colour('ConfigMap'));
    await manifestIsSaved('first');
  });

  step('takes a manifest from the clipboard', async () => {
    await page.getByTestId('add-manifest').click();
    await page.getByTestId('filename-1').fill('second.yaml');
    await page.evaluate((text) => navigator.clipboard.writeText(text), manifest('second'));
    await button('Paste content', editor(1)).click();
    await editor(1).getByText('second', { exact: true }).waitFor();
    await manifestIsSaved('second');
  });

  step('reviews and installs', async () => {
    await next();
    await heading('Review and install').waitFor();
    await page
      .getByRole('button', { name: 'Install cluster', exact: true, disabled: false })
      .click({ timeout: minute });
    await heading('Installation progress').waitFor({ timeout: minute });
  });

  step('follows the progress of each host', async () => {
    const lanes = page.getByTestId('lanes');
    await lanes.getByText(/^Control plane, (bootstrap, )?Writing image to disk/).first().waitFor();
    await lanes.getByRole('img', { name: /^Stages of host-1\. Preparation: done/ }).waitFor();
    // The demo's own cluster is an earlier installation, unless it is still being installed.
    await page.getByTestId('time-left').getByText(/running for .*( left|is not known)/).waitFor();
    await page.getByRole('button', { name: 'Show the times of all stages' }).click();
    await page.getByTestId('times').getByText('Preparing', { exact: true }).waitFor();
  });

  step('shows new events without a reload', async () => {
    await button('Show the events').click();
    const latest = page.getByTestId('cluster-events').getByRole('listitem').first();
    const before = await latest.innerText();
    // The list itself is polled once a minute: an earlier event comes from the feed.
    const deadline = Date.now() + minute / 2;
    while ((await latest.innerText()) === before) {
      assert.ok(Date.now() < deadline, `no event came after "${before}"`);
      await page.waitForTimeout(200);
    }
  });

  step('downloads the journal', async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#journal').click()]);
    assert.match(download.suggestedFilename(), /^.+-\d{8}T\d{6}Z\.journal$/);
  });

  step('shows the completed installation', async () => {
    await page.getByTestId('time-left').getByText('The cluster is installed.').waitFor({ timeout: 3 * minute });
  });

  step('downloads the kubeconfig, shows secrets on request', async () => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download the kubeconfig' }).click(),
    ]);
    assert.match(await readFile(await download.path(), 'utf8'), /^kind: Config$/m);
    const credentials = await site.get(`/v2/clusters/${clusterId()}/credentials`);
    const address = page.getByRole('textbox', { name: 'Address of the console' });
    assert.equal(await address.inputValue(), credentials.console_url);
    assert.ok(!(await page.content()).includes(credentials.password));
    await button('Copy the password').click();
    await page.getByText('Copied', { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), credentials.password);
    await button('Show the password').click();
    await page.getByText(credentials.password, { exact: true }).waitFor();
    await button('Show the pull secret').click();
    await page.getByText('"auths"').first().waitFor();
    await button('Hide the password').click();
    await page.getByText(credentials.password, { exact: true }).waitFor({ state: 'detached' });
  });

  step('checks the site for the cluster', async () => {
    await page.getByRole('link', { name: 'Doctor', exact: true }).click();
    await page
      .getByTestId('summary')
      .getByText(/would prevent an installation|should be checked/)
      .waitFor();
    await page.getByLabel('Cluster', { exact: true }).selectOption({ label: `Cluster ${clusterName}` });
    await page.getByTestId('finding').filter({ hasText: 'Names' }).first().waitFor();
    await page.getByLabel('Show passed checks').check();
    await page.getByTestId('finding').filter({ hasText: 'Reported by hosts' }).first().waitFor();
  });

  step('shows an outage of the appliance and its end', async () => {
    await page.goBack();
    await site.stop();
    await page.getByTestId('away').waitFor();
    await browser.screenshot('the-appliance-is-away');
    await site.start();
    await page.getByTestId('away').waitFor({ state: 'hidden', timeout: minute });
    await page.reload();
    await page.getByTestId('time-left').getByText('The cluster is installed.').waitFor();
    // The nodes pull from the registry of the appliance, which was away, too.
    await page.getByTestId('cluster-registry').getByText('Hand it over before the appliance leaves.').waitFor();
    await page.getByTestId('absence').getByText(/^From .* to /).first().waitFor();
  });

  it('no requests to other origins', () => {
    assert.deepEqual(browser.foreign, []);
  });

  it('no uncaught errors', () => {
    assert.deepEqual(browser.errors, []);
  });
});
