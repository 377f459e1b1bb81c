/** Splits a list that is separated by commas, spaces or line ends. */
export const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '');

/** Why a text is not a pull secret; "" if it can be one. The appliance checks it completely. */
export const problemOfPullSecret = (text: string): string => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'A pull secret is JSON. Copy the whole file, from the first { to the last }.';
  }
  const auths = typeof value === 'object' && value !== null && 'auths' in value ? value.auths : undefined;
  return typeof auths === 'object' && auths !== null
    ? ''
    : 'A pull secret has the field "auths" with the credentials of each registry.';
};

const key = /^(ssh-(rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com) \S+/;

/** Why a text is not a list of public SSH keys, one a line; "" if it is one, or empty. */
export const problemOfKey = (text: string): string => {
  if (text.includes('PRIVATE KEY')) {
    return 'This is a private key. Paste the public key: the file whose name ends in .pub.';
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.every((line) => key.test(line.trim())) ? '' : 'A public key has the form "ssh-ed25519 AAAA… name".';
};

/** Why a text is not the URL of the appliance; "" if it can be one. */
export const problemOfURL = (text: string): string => {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return 'The address has the form https://192.0.2.10:8090.';
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return 'The address begins with https:// or http://.';
  }
  return ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
    ? 'Hosts cannot reach this machine by that name. Use its name or address in their network.'
    : '';
};
