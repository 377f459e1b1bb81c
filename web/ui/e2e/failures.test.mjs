// Failures, and a single node: hosts that do not meet the requirements, a failed installation, a
// cancelled one. Each step builds on the previous steps.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const pullSecret = JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } });
const fast = 200;

describe('failures, and a single node', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let cluster;
  let infraEnv;
  let hosts;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading, next } = controls(() => page);
  const kubeconfigLink = () => page.getByRole('link', { name: 'Download the kubeconfig' });
  const shows = async (name) => {
    await heading(name).waitFor();
    await page.reload();
    await heading(name).waitFor();
  };
  const install = async (justBefore = () => undefined) => {
    for (const page of ['Storage', 'Networking', 'Review and install']) {
      await next();
      await heading(page).waitFor();
    }
    const start = page.getByRole('button', { name: 'Install cluster', exact: true, disabled: false });
    await start.waitFor();
    justBefore();
    await start.click();
    await heading('Installation progress').waitFor();
  };

  before(async () => {
    site = await startSite({ hosts: 1, speed: fast });
    browser = await openBrowser(site.url, 'failures');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('shows the fields of the wizard in a narrow window', async () => {
    const wide = page.viewportSize();
    await page.setViewportSize({ width: 420, height: 900 });
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    for (const list of ['OpenShift version', 'CPU architecture', 'Integration with a platform']) {
      const place = await page.getByLabel(list).boundingBox();
      assert.ok(place.x >= 0 && place.x + place.width <= 420, `the list ${list} is at ${JSON.stringify(place)}`);
    }
    await page.setViewportSize(wide);
  });

  step('stays on the page to which a person goes while a cluster is created', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    const isOf = (name) => (url) => url.pathname.endsWith(`/v2/${name}`);
    const answered = [];
    for (const name of ['clusters', 'infra-envs']) {
      await page.route(isOf(name), async (route) => {
        await page.getByRole('link', { name: 'Create cluster' }).waitFor();
        await route.fulfill({ status: 201, json: { id: '1' } });
        answered.push(name);
      });
    }
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('left');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await next();
    await page.getByRole('link', { name: 'Cancel' }).click();
    await until('the cluster is created', () => answered.length === 2);
    await page.waitForFunction(() =>
      performance.getEntriesByType('resource').some(({ name }) => /Installer/.test(name)),
    );
    await page.unrouteAll({ behavior: 'wait' });
    await page.evaluate(() => new Promise((shown) => requestAnimationFrame(() => setTimeout(shown))));
    assert.equal(new URL(page.url()).pathname, '/assisted-installer/clusters');
  });

  step('creates a single-node cluster', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('solo');
    assert.equal(await page.title(), 'New cluster · Landfall');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.getByLabel('Number of control-plane nodes').selectOption({ label: '1 (single node)' });
    await next();
    await shows('Operators');
    assert.equal(await page.title(), 'solo · Landfall');
  });

  step('offers each kind of image with its purpose', async () => {
    await next();
    await shows('Host discovery');
    await button('Add host').click();
    await page.getByTestId('discovery-image-type-dropdown-toggle').click();
    await page.getByText('hosts fetch the rest while booting').waitFor();
    for (const kind of [/^Full image file/, /^Minimal image file/, /^iPXE/]) {
      assert.ok(await page.getByRole('menuitem', { name: kind }).isEnabled());
    }
    await browser.screenshot('the-images-on-offer');
    await page.getByRole('menuitem', { name: /^iPXE/ }).click();
    await button('Generate script file').click();
    await page.getByText('iPXE script file is ready to be downloaded').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    await button('Add host').click();
    // The dialog may show an existing script; Back leads to the selection.
    const toggle = page.getByTestId('discovery-image-type-dropdown-toggle');
    const back = page.getByRole('dialog').getByRole('button', { name: 'Back', exact: true });
    await toggle.or(back).first().waitFor();
    if (await back.isVisible()) {
      await back.click();
    }
    await toggle.click();
    await page.getByRole('menuitem', { name: /^Full image file/ }).click();
    await page.getByRole('button', { name: 'Generate Discovery ISO' }).click();
    await page.getByTestId('iso-sha256').waitFor();
    await page.getByTestId('close-iso-btn').click();
  });

  step("installs the single node on its host's network", async () => {
    const id = new URL(page.url()).pathname.split('/')[3];
    const [env] = await site.get(`/v2/infra-envs?cluster_id=${id}`);
    site.bootHosts(env.id, 1, { speed: fast });
    await button('Ready').waitFor({ timeout: minute });
    await next();
    await heading('Storage').waitFor();
    await next();
    await heading('Networking').waitFor();
    await page.getByText(/^192\.168\.100\.0\/24 /).waitFor();
    await next();
    await shows('Review and install');
    await page.getByRole('button', { name: 'Install cluster', exact: true, disabled: false }).click();
    await shows('Installation progress');
    await page.getByTestId('time-left').getByText('The cluster is installed.').waitFor({ timeout: minute });
    const [kubeconfig] = await Promise.all([page.waitForEvent('download'), kubeconfigLink().click()]);
    assert.match(await readFile(await kubeconfig.path(), 'utf8'), /^kind: Config$/m);
    await page.reload();
    await page.getByTestId('time-left').getByText('The cluster is installed.').waitFor();
  });

  step('sends the request for a cluster again when the first one hangs', async () => {
    const { pathname } = new URL(page.url());
    const other = await (await browser.another()).newPage();
    await other.clock.install();
    let requests = 0;
    await other.route(
      (url) => url.pathname.endsWith(`/v2/clusters/${pathname.split('/')[3]}`),
      async (route) => {
        requests += 1;
        if (requests > 1) {
          await route.continue();
        }
      },
    );
    await other.goto(site.url + pathname);
    await until('the page sends the request', () => requests === 1);
    await other.clock.runFor(minute / 2 + 1_000);
    await until('the page sends the request again', () => requests > 1);
    await other.clock.runFor(1_000);
    await other.getByRole('heading', { name: 'Installation progress' }).waitFor();
    await other.context().close();
  });

  step('adds hosts to the cluster, with its kubeconfig', async () => {
    await button('Add hosts').click();
    await button('Add hosts', page.getByRole('dialog')).click();
    await heading('Host discovery').waitFor();
    await heading('solo').waitFor();
    await button('Download logs').waitFor();
    await heading('Cluster').waitFor();
    await Promise.all([page.waitForEvent('download'), kubeconfigLink().click()]);
  });

  step('shows why another host can not be installed', async () => {
    const id = new URL(page.url()).pathname.split('/')[3];
    const [env] = await site.get(`/v2/infra-envs?cluster_id=${id}`);
    const another = site.bootHosts(env.id, 1, { speed: fast, first: 2 });
    await button('Ready').waitFor({ timeout: minute });
    const refused = {
      status: 409,
      contentType: 'application/json',
      body: JSON.stringify({ reason: 'The host is too late.' }),
    };
    await page.route('**/actions/install', (route) => route.fulfill(refused));
    await page.getByRole('button', { name: 'Install ready hosts', disabled: false }).click();
    await page.getByText('The host is too late.').waitFor();
    await page.unroute('**/actions/install');
    await another.powerOff();
    await page.getByTestId('cluster-breadcrumbs').getByRole('link', { name: 'Clusters' }).click();
    await heading('Clusters').waitFor();
  });

  step('rejects a second cluster of the same name', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('solo');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await page.keyboard.press('Tab');
    await page.getByText('A cluster with this name and base domain exists already').waitFor();
    await page.getByRole('textbox', { name: 'Base domain' }).fill('other.test');
    await page.getByText('A cluster with this name and base domain exists already').waitFor({ state: 'detached' });
  });

  step("shows a host's missing requirements", async () => {
    cluster = await site.post('/v2/clusters', {
      name: 'reef',
      base_dns_domain: 'site.test',
      openshift_version: (await site.get('/v2/clusters'))[0].openshift_version,
      pull_secret: pullSecret,
      api_vips: [{ ip: '192.168.100.200' }],
      ingress_vips: [{ ip: '192.168.100.201' }],
    });
    infraEnv = await site.post('/v2/infra-envs', {
      name: 'reef_infra-env',
      cluster_id: cluster.id,
      pull_secret: pullSecret,
    });
    hosts = site.bootHosts(infraEnv.id, 3, { speed: fast, faults: 'host=2:low-memory' });
    await page.goto(`${site.url}/assisted-installer/clusters/${cluster.id}`);
    await heading('Host discovery').waitFor();
    await button('Ready').nth(1).waitFor({ timeout: minute });
    await button('Insufficient').click();
    await page
      .getByRole('dialog')
      .getByText(/memory|RAM/i)
      .first()
      .waitFor();
  });

  step('shows the host as ready after the repair', async () => {
    await page.keyboard.press('Escape');
    await hosts.powerOff();
    hosts = site.bootHosts(infraEnv.id, 3, { speed: fast, faults: 'host=2:fail-at=Writing image to disk' });
    await button('Ready').nth(2).waitFor({ timeout: minute });
  });

  step('renames a host', async () => {
    await page
      .getByRole('row', { name: /host-1/ })
      .getByRole('button', { name: 'Kebab toggle' })
      .click();
    await page.getByRole('menuitem', { name: 'Change hostname' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('anchor');
    await page.getByTestId('change-hostname-form__button-change').click();
    await page.getByRole('row', { name: /anchor/ }).waitFor();
  });

  step('shows the failed host with its error', async () => {
    await button('Ready').nth(2).waitFor();
    await install();
    const failure = page.getByTestId('installation-failure');
    await failure.getByText('Host host-2 failed in the stage "Writing image to disk".').waitFor({ timeout: minute });
    await failure.getByText('The installation was aborted at the stage "Writing image to disk"').waitFor();
    await failure.getByText(/^Check the installation disk/).waitFor();
    const stopped = failure.getByRole('list').last().getByRole('link');
    assert.deepEqual(await stopped.allInnerTexts(), ['anchor', 'host-3']);
    await browser.screenshot('a-failed-installation');
    await failure.getByRole('link', { name: 'Show the host' }).first().click();
    await heading('host-2').waitFor();
    await page.goBack();
    await failure.waitFor();
  });

  step('downloads the logs of the failed installation', async () => {
    const [logs] = await Promise.all([page.waitForEvent('download'), button('Download logs').click()]);
    assert.match(logs.suggestedFilename(), /^reef_[0-9a-f-]{36}\.tar$/);
    assert.notEqual((await readFile(await logs.path())).length, 0);
  });

  step('resets the cluster, hosts come back', async () => {
    await button('Reset cluster').click();
    await button('Reset cluster', page.getByRole('dialog')).click();
    await heading('Host discovery').waitFor({ timeout: minute });
    await hosts.powerOff();
    hosts = site.bootHosts(infraEnv.id, 3, { speed: 20 });
    await button('Ready').nth(2).waitFor({ timeout: minute });
  });

  const abort = async () => {
    await button('Cancel installation').click();
    await button('Cancel installation', page.getByRole('dialog')).click();
  };

  step('cancels the preparation of an installation', async () => {
    await install(() => hosts.hold()); // the preparation lasts until the hosts have run their steps
    await abort();
    hosts.release();
    await heading('Review and install').waitFor();
    await page.getByRole('button', { name: 'Install cluster', exact: true, disabled: false }).waitFor();
  });

  step('cancels an installation', async () => {
    await button('Install cluster').click();
    await heading('Installation progress').waitFor();
    while ((await site.get(`/v2/clusters/${cluster.id}`)).status !== 'installing') {
      await page.waitForTimeout(200);
    }
    await abort();
    await button('Reset cluster').waitFor();
    assert.equal((await site.get(`/v2/clusters/${cluster.id}`)).status, 'cancelled');
    await page.getByText(/The installation was cancelled on /).waitFor();
  });

  step('installs the cluster after another reset', async () => {
    await button('Reset cluster').click();
    await button('Reset cluster', page.getByRole('dialog')).click();
    await heading('Host discovery').waitFor({ timeout: minute });
    await hosts.powerOff();
    hosts = site.bootHosts(infraEnv.id, 3, { speed: fast });
    await button('Ready').nth(2).waitFor({ timeout: minute });
    await install();
    await page.getByTestId('time-left').getByText('The cluster is installed.').waitFor({ timeout: minute });
  });

  step('deletes a cluster', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters`);
    await heading('Clusters').waitFor();
    const row = page.getByTestId('cluster-row-reef');
    await row.getByRole('button', { name: 'Kebab toggle' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    const remove = button('Delete cluster', page.getByRole('dialog'));
    await page.getByText('The installed cluster runs on.').waitFor();
    assert.ok(await remove.isDisabled());
    const name = page.getByRole('dialog').getByRole('textbox');
    await until('the name has the focus', () => name.evaluate((one) => one === document.activeElement));
    await page.keyboard.type('reef');
    await remove.click();
    await row.waitFor({ state: 'detached' });
    await page.getByTestId('cluster-row-solo').waitFor();
  });

  step('shows a missing infra-env, then a deleted cluster', async () => {
    const { id } = await site.post('/v2/clusters', {
      name: 'wreck',
      base_dns_domain: 'site.test',
      openshift_version: (await site.get('/v2/clusters'))[0].openshift_version,
      pull_secret: pullSecret,
    });
    await page.goto(`${site.url}/assisted-installer/clusters/${id}`);
    await page.getByText(/The cluster has no infra-env/).waitFor();
    await fetch(`${site.url}/api/assisted-install/v2/clusters/${id}`, { method: 'DELETE' });
    await heading('This cluster does not exist').waitFor();
    await page.reload();
    await heading('This cluster does not exist').waitFor();
    await page.getByTestId('no-cluster').getByRole('link', { name: 'All clusters' }).click();
    await page.getByTestId('cluster-row-solo').waitFor();
  });

  it('no requests to other origins', () => {
    assert.deepEqual(browser.foreign, []);
  });

  it('no uncaught errors', () => {
    assert.deepEqual(browser.errors, []);
  });
});
