// The wizard's last step: what it says about the cluster, what blocks the installation and where a
// person removes it; and the fencing of two control-plane nodes.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { prepareClusters } from './clusters.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;

describe('review of a cluster', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let clusters;
  let ready;

  const step = dependentSteps(() => ({ site, browser }));
  const { button, heading } = controls(() => page);

  before(async () => {
    site = await startSite();
    browser = await openBrowser(site.url, 'review');
    page = browser.page;
    clusters = await prepareClusters(site);
    ready = await clusters.ready('north', { first: 11 });
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('says what is installed where', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/${ready.id}`);
    await heading('Review and install').waitFor();
    const text = (section) => page.getByRole('region', { name: section, exact: true }).innerText();
    await page.getByTestId('review-hosts').waitFor();
    assert.match(await text('Cluster'), /3 control-plane nodes; the control plane runs workloads too\./);
    assert.match(await text('Hosts'), /\/dev\/\w+\s+Will be erased/);
    assert.match(await text('Networks'), /its nodes take the API and ingress addresses/);
    assert.match(await text('Operators'), /No operators beside those of OpenShift/);
    await page.getByText('The discovery image has no SSH key.').waitFor();
  });

  step("shows the doctor's verdict beside the button that installs", async () => {
    const footer = page.getByTestId('cluster-wizard-step-footer');
    await footer.getByTestId('verdict').getByText(/should be checked|prevent/).waitFor({ timeout: minute });
    await footer.getByRole('link', { name: 'Show the findings' }).waitFor();
    assert.ok(await button('Install cluster', footer).isEnabled());
    await button('Rehearse', footer).click();
    const rehearsal = footer.getByTestId('rehearsal').getByText(/^The rehearsal (passed|failed)\.$/);
    await rehearsal.waitFor({ timeout: 2 * minute });
  });

  step('says what blocks the installation, and leads there', async () => {
    await site.send('PATCH', `/api/assisted-install/v2/clusters/${ready.id}`, { api_vips: [{ ip: '10.99.99.99' }] });
    const verdict = page.getByTestId('review-verdict');
    await verdict.getByText(/blocks? the installation\./).waitFor();
    assert.ok(await button('Install cluster').isDisabled());
    await verdict.getByRole('button', { name: 'Go to Networking' }).first().click();
    await heading('Networking').waitFor();
    await page.getByTestId('readiness').waitFor();
  });

  step('fences two control-plane nodes', async () => {
    const two = await clusters.create('two', { first: 21, hosts: 2, settings: { control_plane_count: 2 } });
    await page.goto(`${site.url}/assisted-installer/clusters/${two.id}`);
    const lines = page.getByTestId('fencing').getByRole('listitem');
    await lines.nth(1).waitFor();
    for (const host of ['host-21', 'host-22']) {
      await button(`Set fencing credentials of ${host}`).click();
      const dialog = page.getByRole('dialog', { name: `Fencing credentials of ${host}` });
      const address = dialog.getByLabel('Address of the BMC');
      await address.fill(`redfish+https://192.0.2.${host.slice(-2)}/redfish/v1/Systems/1`);
      await dialog.getByLabel('User name').fill('admin');
      await dialog.getByLabel('Password').fill('secret');
      await button('Save', dialog).click();
      await lines.filter({ hasText: `${host}: fenced through redfish+https://` }).waitFor();
    }
    await page.getByText('Each of the two control-plane nodes can power the other off.').waitFor();
  });

  step('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
