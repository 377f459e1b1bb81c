import { afterEach, describe, expect, it, vi } from 'vitest';
import { addRelease, changeSettings, removeRelease, type Release } from '../src/settings/api';
import { listOf, problemOfKey, problemOfPullSecret, problemOfURL } from '../src/settings/check';
import { isRemovable, offeredBy } from '../src/settings/words';

const release: Release = {
  openshift_version: '4.20.8',
  cpu_architecture: 'x86_64',
  url: 'quay.io/a@sha256:b',
  default: true,
  source: 'administrator',
};

describe('releases', () => {
  it.each([
    ['configuration', 'Configuration file', false],
    ['administrator', 'Administrator', true],
    ['medium', 'Medium of the registry', false],
  ] as const)('of the %s', (source, words, removable) => {
    expect(offeredBy[source]).toBe(words);
    expect(isRemovable({ ...release, source })).toBe(removable);
  });
});

describe('checks of settings', () => {
  it.each([
    ['', []],
    ['192.0.2.1', ['192.0.2.1']],
    ['192.0.2.1, ntp.example.com\n2001:db8::1', ['192.0.2.1', 'ntp.example.com', '2001:db8::1']],
  ])('list of %j', (text, list) => {
    expect(listOf(text)).toEqual(list);
  });

  it.each([
    ['credentials', '{"auths":{"quay.io":{"auth":"dTpw"}}}', ''],
    ['no credentials', '{"auths":{}}', ''],
    ['no JSON', '{"auths":', 'A pull secret is JSON. Copy the whole file, from the first { to the last }.'],
    ['other JSON', '[]', 'A pull secret has the field "auths" with the credentials of each registry.'],
    ['null', 'null', 'A pull secret has the field "auths" with the credentials of each registry.'],
  ])('pull secret with %s', (_, text, problem) => {
    expect(problemOfPullSecret(text)).toBe(problem);
  });

  it.each([
    ['none', '', ''],
    ['one', 'ssh-ed25519 AAAAC3Nz anna@host', ''],
    ['two', 'ssh-ed25519 AAAAC3Nz anna\n\necdsa-sha2-nistp256 AAAAE2Vj', ''],
    ['a name only', 'anna', 'A public key has the form "ssh-ed25519 AAAA… name".'],
    [
      'a private key',
      '-----BEGIN OPENSSH PRIVATE KEY-----',
      'This is a private key. Paste the public key: the file whose name ends in .pub.',
    ],
  ])('SSH key: %s', (_, text, problem) => {
    expect(problemOfKey(text)).toBe(problem);
  });

  it.each([
    ['https://192.0.2.10:8090', ''],
    ['http://landfall.example.com', ''],
    ['192.0.2.10:8090', 'The address has the form https://192.0.2.10:8090.'],
    ['ftp://192.0.2.10', 'The address begins with https:// or http://.'],
    [
      'https://localhost:8090',
      'Hosts cannot reach this machine by that name. Use its name or address in their network.',
    ],
  ])('address %s', (text, problem) => {
    expect(problemOfURL(text)).toBe(problem);
  });
});

describe('requests for settings', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it.each([
    ['a change', () => changeSettings({ pull_secret: '' }), 'PATCH', '', '{"pull_secret":""}'],
    ['a release', () => addRelease('quay.io/a:b', false), 'POST', '/releases', '{"release":"quay.io/a:b"}'],
    [
      'the default',
      () => addRelease('quay.io/a:b', true),
      'POST',
      '/releases',
      '{"release":"quay.io/a:b","default":true}',
    ],
    ['a removal', () => removeRelease(release), 'DELETE', '/releases/4.20.8/x86_64', null],
  ])('%s', async (_, send, method, path, body) => {
    const fetched = vi.fn<typeof fetch>(() => Promise.resolve(new Response('{}')));
    vi.stubGlobal('fetch', fetched);
    await send();
    expect(fetched).toHaveBeenCalledWith(
      `/api/landfall/v1/settings${path}`,
      expect.objectContaining({ method, body }) as RequestInit,
    );
  });
});
