// Images: an uploaded base ISO, downloaded and compared images, and a machine that boots from the
// short address while the page shows its progress. Each step builds on the previous steps.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createReadStream, statSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { bootFrom, makeLiveISO, requireEmulator, sha256, volumeId } from './machine.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const mebibyte = 1024 ** 2;

describe('images from a live ISO', { timeout: fileLimit }, () => {
  let directory;
  let iso;
  let site;
  let browser;
  let page;
  let machine;
  let mirror;
  let version;
  let shortURL;

  const step = dependentSteps(() => ({ site, browser, machine }));

  const { button, heading, next, clusterId } = controls(() => page);
  const row = (text) => page.getByTestId('os-image').filter({ hasText: text });
  const upload = () => page.getByTestId('upload');
  const percent = async () => Number((await upload().innerText()).match(/(\d+) %/)?.[1]);
  const infraEnvId = async () => (await site.get(`/v2/infra-envs?cluster_id=${clusterId()}`))[0].id;
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  const status = async (url, method = 'HEAD') => {
    const response = await fetch(url, { method });
    await response.body?.cancel();
    return response.status;
  };
  /** Limits the link to this number of bytes a second; 0 means no limit. */
  const link = async (bytesPerSecond) => {
    const session = await page.context().newCDPSession(page);
    await session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 0,
      downloadThroughput: -1,
      uploadThroughput: bytesPerSecond || -1,
    });
  };
  const waitUntil = async (what, holds, timeout = minute) => {
    const deadline = Date.now() + timeout;
    while (!(await holds())) {
      assert.ok(Date.now() < deadline, `timeout: ${what}`);
      await page.waitForTimeout(100);
    }
  };
  const downloadShown = async () => {
    await page.getByTestId('image-sha256').waitFor({ timeout: minute });
    const digest = (await page.getByTestId('image-sha256').innerText()).match(/[0-9a-f]{64}/)?.[0];
    const size = Number(
      (await page.getByTestId('image-size').innerText()).match(/\(([\d,]+) bytes\)/)?.[1].replaceAll(',', ''),
    );
    const [download] = await Promise.all([
      page.waitForEvent('download', { timeout: minute }),
      page.getByTestId('image-download').click(),
    ]);
    const content = await readFile(await download.path());
    assert.match(download.suggestedFilename(), /\.iso$/);
    assert.equal(content.length, size);
    assert.equal(sha256(content), digest);
    return content;
  };

  before(async () => {
    requireEmulator();
    directory = await mkdtemp(join(tmpdir(), 'landfall-e2e-images-'));
    const secret = join(directory, 'pull-secret.json');
    await writeFile(secret, '{"auths":{"mirror.site.test":{"auth":"YTpi"}}}');
    [iso, site] = await Promise.all([
      makeLiveISO(directory),
      startSite({ configured: true, serve: ['--mirror-pull-secret', secret] }),
    ]);
    browser = await openBrowser(site.url, 'images');
    page = browser.page;
    const { releases } = await (await fetch(`${site.url}/api/landfall/v1/status`)).json();
    version = releases[0].openshift_version;
  });
  after(async () => {
    machine?.powerOff();
    mirror?.close();
    await browser?.close();
    await site?.end();
    await rm(directory, { recursive: true, force: true });
  });

  step('lists the OS images of the appliance', async () => {
    await page.goto(site.url);
    await page.getByRole('link', { name: 'OS images' }).click();
    await page.waitForURL('**/os-images');
    await row('Ready').waitFor();
    assert.equal(await page.title(), 'OS images · Landfall');
    await page.getByRole('button', { name: /^Actions for OpenShift/ }).click();
    assert.ok(await page.getByRole('menuitem', { name: /^Remove/ }).isDisabled());
    await page.getByText('The configuration file contains the image').waitFor();
    await page.keyboard.press('Escape');
  });

  step('has the appliance fetch a live ISO and removes it', async () => {
    mirror = createServer((_, response) => {
      response.setHeader('Content-Length', statSync(iso).size);
      createReadStream(iso).pipe(response);
    }).listen(0, '127.0.0.1');
    await once(mirror, 'listening');
    await button('Fetch an ISO').click();
    await page.getByRole('textbox', { name: 'URL' }).fill('ftp://mirror.site.test/live.iso');
    await button('Fetch').click();
    await page.getByText('expected an http:// or https:// URL').waitFor();
    await page.getByRole('textbox', { name: 'URL' }).fill(`http://127.0.0.1:${String(mirror.address().port)}/live.iso`);
    await page.getByRole('textbox', { name: 'OpenShift version' }).fill('4.99');
    await button('Fetch').click();
    await row('4.99').getByText('Ready').waitFor();
    await page.getByRole('button', { name: 'Actions for OpenShift 4.99 x86_64' }).click();
    await page.getByRole('menuitem', { name: /^Remove/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await row('4.99').waitFor({ state: 'detached' });
  });

  step('rejects a file that is not an ISO', async () => {
    const text = join(directory, 'readme.txt');
    await writeFile(text, 'This is not an ISO.');
    await button('Upload an ISO').click();
    await page.locator('[role=dialog] input[type=file]').setInputFiles(text);
    await page.getByText('readme.txt is not an ISO.').waitFor();
    assert.ok(await button('Upload').isDisabled());
  });

  step('shows the progress of an upload', async () => {
    await page.locator('[role=dialog] input[type=file]').setInputFiles(iso);
    await page.getByRole('dialog').getByText(volumeId).waitFor();
    await page.getByLabel('OpenShift version').fill(version);
    await button('Compare its SHA-256').click();
    await page.getByRole('textbox', { name: 'SHA-256' }).fill(sha256(await readFile(iso)));
    await link(8 * mebibyte);
    await button('Upload').click();
    await waitUntil('a part of the file has arrived', async () => (await percent()) >= 5);
    const before = await percent();
    await waitUntil('the progress moves', async () => (await percent()) > before);
  });

  step('resumes with the same file after a reload', async () => {
    await page.getByRole('button', { name: /^Pause/ }).click();
    await upload()
      .getByText(/^Paused/)
      .waitFor();
    const before = await percent();
    await page.reload();
    await upload().getByText('Choose the same file to resume').waitFor();
    await browser.screenshot('an-unfinished-upload');
    await page.getByTestId('choose-again').setInputFiles(join(directory, 'readme.txt'));
    await upload().getByText('is not the file').waitFor();
    await page.getByTestId('choose-again').setInputFiles(iso);
    await waitUntil('the upload continues', async () => (await percent()) > before);
    assert.ok(before > 0);
  });

  step('shows the upload in another tab as one of this tab', async () => {
    const other = await page.context().newPage();
    await other.goto(`${site.url}/os-images`);
    const shown = other.getByTestId('upload');
    await shown.getByText('Another tab or window of this browser has this upload').waitFor();
    assert.equal(await shown.getByRole('button').count(), 0);
    await browser.screenshot('an-upload-of-another-tab', other);
    await other.close();
    await waitUntil('this tab still uploads', async () => (await upload().getAttribute('data-state')) === 'sending');
  });

  step('resumes after a restart of the appliance', async () => {
    await site.stop();
    await upload().getByText('The upload resumes automatically').waitFor();
    await page.getByTestId('away').waitFor();
    await browser.screenshot('an-upload-waits-for-the-appliance');
    await site.start();
    await upload()
      .getByText(/^Uploaded/)
      .waitFor({ timeout: minute });
    await link(0);
  });

  step('lists the image with its boot methods and verifies it', async () => {
    const listed = row(version);
    await listed.getByText('Ready').waitFor();
    await listed.getByText('x86_64').waitFor();
    await page.getByRole('button', { name: `Actions for OpenShift ${version} x86_64` }).click();
    await page.getByRole('menuitem', { name: /^Verify/ }).click();
    await listed.getByText('Ready').waitFor();
    await listed.getByRole('button', { name: 'Details' }).click();
    await page.getByText(sha256(await readFile(iso))).waitFor();
    await page.getByText(volumeId, { exact: true }).waitFor();
  });

  step('shows all boot methods at the discovery step', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters/~new`);
    await page.getByRole('textbox', { name: 'Cluster name' }).fill('pier');
    await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await next();
    await heading('Operators').waitFor();
    await next();
    await heading('Host discovery').waitFor();
    await page.getByTestId('image-reads-empty').waitFor();
  });

  step('downloads the full image with the correct digest', async () => {
    await button('Full').click();
    const image = await downloadShown();
    assert.ok(image.length >= (await readFile(iso)).length);
  });

  step('downloads the minimal image with the correct digest', async () => {
    await button('Minimal').click();
    await page.getByText('hosts fetch the root file system from the appliance while booting').waitFor();
    const image = await downloadShown();
    assert.ok(image.length < (await readFile(iso)).length / 2);
  });

  step('copies the addresses for network boot', async () => {
    await page.getByTestId('boot-method-network-boot').click();
    const copyButtons = page.getByTestId('network-boot').getByRole('button', { name: /^Copy/ });
    const addresses = new Map();
    for (const [place, what] of [
      'iPXE script',
      'UEFI HTTP boot',
      'GRUB menu',
      'Kernel',
      'Initrd',
      'Root file system',
    ].entries()) {
      await copyButtons.nth(place).click();
      addresses.set(what, await clipboard());
    }
    for (const [what, url] of addresses) {
      assert.equal(await status(url), 200, `${what}: ${url}`);
    }
    const script = await (await fetch(addresses.get('iPXE script'))).text();
    assert.match(script, /^#!ipxe/);
    assert.ok(script.includes(addresses.get('Kernel')));
  });

  step('downloads the config image', async () => {
    await page.getByTestId('boot-method-config-image').click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByTestId('config-image-download').click(),
    ]);
    const image = await readFile(await download.path());
    assert.equal(image.subarray(32_769, 32_774).toString(), 'CD001');
    assert.ok(image.length < 4 * mebibyte);
  });

  step('copies the short address', async () => {
    await page.getByTestId('boot-method-virtual-media').click();
    await page.getByTestId('short-url').getByRole('button', { name: /^Copy/ }).click();
    shortURL = await clipboard();
    assert.match(shortURL, /^http:\/\/[^/]+\/i\/[a-z0-9]{16,}\.iso$/);
    assert.ok(new URL(shortURL).pathname.length + 'http://'.length + 15 < 60);
    assert.equal(await status(shortURL), 200);
  });

  step('shows the progress of a booting machine', async () => {
    machine = bootFrom(shortURL, 6 * mebibyte);
    const read = page
      .getByTestId('read')
      .filter({ has: page.getByText('BMC 127.0.0.1') })
      .first();
    const share = async (name) =>
      Number(await read.locator(`[data-testid=read-segment][data-name="${name}"]`).getAttribute('data-percent'));
    await read.getByText('Reading', { exact: true }).waitFor();
    await browser.screenshot('a-machine-begins-to-boot');
    await waitUntil('the kernel is read', async () => (await share('kernel')) === 100);
    await waitUntil('the root file system is being read', async () => {
      const now = await share('rootfs');
      return now > 0 && now < 100;
    });
    await browser.screenshot('a-machine-boots');
    const before = await share('rootfs');
    await waitUntil('the share of the root file system grows', async () => (await share('rootfs')) > before);
    await read.getByText('Finished', { exact: true }).waitFor({ timeout: minute });
    for (const name of ['kernel', 'initrd', 'rootfs']) {
      assert.equal(await share(name), 100, name);
    }
    const config = await fetch(
      `${site.url}/api/assisted-install/v2/infra-envs/${await infraEnvId()}/downloads/files?file_name=discovery.ign`,
    );
    assert.ok((await machine.ended).includes(`CONFIG ${sha256(Buffer.from(await config.arrayBuffer()))}`));
  });

  step('selects the minimal image for the hosts', async () => {
    await button('Add hosts').click();
    await page.getByTestId('discovery-image-type-dropdown-toggle').click();
    await page.getByRole('menuitem', { name: /^Minimal image file/ }).click();
    await button('Generate Discovery ISO').click();
    await page.getByTestId('iso-size').getByText('minimal image').waitFor();
    const { size } = await page
      .getByTestId('iso-size')
      .innerText()
      .then((text) => ({ size: Number(text.match(/\(([\d,]+) bytes\)/)?.[1].replaceAll(',', '')) }));
    const response = await fetch(shortURL, { method: 'HEAD' });
    assert.equal(Number(response.headers.get('Content-Length')), size);
    await browser.screenshot('the-minimal-image');
    await page.getByTestId('close-iso-btn').click();
    await page.getByText('the minimal image at a short address').waitFor();
  });

  step('renews the short address, the old one becomes invalid', async () => {
    await button('Renew').click();
    await page.getByLabel('Valid for').selectOption({ label: '7 days' });
    await page.getByRole('dialog').getByRole('button', { name: 'Renew' }).click();
    await page.getByTestId('short-url-expires').getByText('Valid until ').waitFor();
    await waitUntil('the old address is invalid', async () => (await status(shortURL)) === 404);
    let renewed;
    await waitUntil('the page shows the new address', async () => {
      await page.getByTestId('short-url').getByRole('button', { name: /^Copy/ }).click();
      renewed = await clipboard();
      return renewed !== shortURL;
    });
    assert.equal(await status(renewed), 200);
    shortURL = renewed;
  });

  step('revokes the short address', async () => {
    await button('Revoke').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByTestId('short-url-none').waitFor();
    assert.equal(await status(shortURL), 404);
  });

  step('does not remove an image in use', async () => {
    await page.getByRole('link', { name: 'OS images' }).click();
    await page.getByRole('button', { name: `Actions for OpenShift ${version} x86_64` }).click();
    await page.getByText(/infra-envs? uses? the image/).waitFor();
    assert.ok(await page.getByRole('menuitem', { name: /^Remove/ }).isDisabled());
    await page.keyboard.press('Escape');
  });

  it('no requests to other origins', () => {
    assert.deepEqual(browser.foreign, []);
  });

  it('no uncaught errors', () => {
    assert.deepEqual(browser.errors, []);
  });
});
