import { asSentence } from './quantities';

/** An error response of the appliance; the message is a sentence for the user. */
export class ApplianceError extends Error {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ApplianceError';
    this.status = status;
  }

  /**
   * Whether a retry may succeed without a correction: no response, or a server that is busy or
   * starting.
   */
  get isPassing(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

export type RequestOptions = {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  body?: BodyInit;
  /** Sent as JSON, instead of `body`. */
  json?: unknown;
};

/** Sends a request to the appliance; throws an `ApplianceError` unless it succeeds. */
export const request = async (
  method: string,
  path: string,
  { signal, headers, body, json }: RequestOptions = {},
): Promise<Response> => {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      signal: signal ?? null,
      headers: {
        Accept: 'application/json',
        ...(json === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: json === undefined ? (body ?? null) : JSON.stringify(json),
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new ApplianceError(0, 'The appliance does not respond.', { cause: error });
  }
  if (!response.ok) {
    throw new ApplianceError(response.status, await explain(response, method, path));
  }
  return response;
};

/** Requests JSON from the appliance. */
export const getJSON = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await (await request('GET', path, { signal })).json()) as T;

/** The text for the user of any thrown value. */
export const sentenceOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

const explain = async (response: Response, method: string, path: string): Promise<string> => {
  try {
    const body = (await response.json()) as { reason?: unknown; message?: unknown } | null;
    for (const sentence of [body?.reason, body?.message]) {
      if (typeof sentence === 'string' && sentence !== '') {
        return asSentence(sentence);
      }
    }
  } catch {
    // A page of a proxy, or no body: only the status is known.
  }
  return `The appliance responded ${String(response.status)} to ${method} ${path}.`;
};
