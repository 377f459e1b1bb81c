import { getJSON, request } from '../shell/request';

export type Passkey = { id: string; host: string; label: string; registered: string; used?: string };

const base = '/api/landfall/v1';

/** The argument of navigator.credentials.create or get, in the JSON form of WebAuthn. */
export type Options = { publicKey: unknown };

/** Whether this browser, at this address, can use passkeys: it needs HTTPS and a DNS name. */
export const canUsePasskeys = (): boolean =>
  window.isSecureContext && 'PublicKeyCredential' in window && !/^[\d.:[\]]+$/.test(window.location.hostname);

const answerOf = (credential: Credential | null): unknown => {
  if (!(credential instanceof PublicKeyCredential)) {
    throw new Error('The browser returned no passkey.');
  }
  return credential.toJSON();
};

/** Asks the person for a passkey. */
export const askForPasskey = async ({ publicKey }: Options): Promise<unknown> =>
  answerOf(
    await navigator.credentials.get({
      publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey as PublicKeyCredentialRequestOptionsJSON),
    }),
  );

/** Makes a passkey on this device and registers it for the person at the page. */
export const registerPasskey = async (label: string): Promise<void> => {
  const begun = await request('POST', `${base}/passkeys/begin`);
  const { options } = (await begun.json()) as { options: Options };
  const answer = answerOf(
    await navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(
        options.publicKey as PublicKeyCredentialCreationOptionsJSON,
      ),
    }),
  );
  await request('POST', `${base}/passkeys`, { json: { label, answer } });
};

export const listPasskeys = (signal?: AbortSignal) => getJSON<Passkey[]>(`${base}/passkeys`, signal);

export const deletePasskey = (id: string) => request('DELETE', `${base}/passkeys/${encodeURIComponent(id)}`);
