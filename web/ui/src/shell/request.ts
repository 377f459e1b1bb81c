import { asSentence } from './quantities';

/** An answer of the appliance that is no success; the message is a sentence for a person. */
export class ApplianceError extends Error {
  /** The HTTP status; 0 when no answer came. */
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ApplianceError';
    this.status = status;
  }

  /** Whether the same may succeed later without anybody's doing: no answer, or a server that is busy or not up yet. */
  get isPassing(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

export type RequestOptions = {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  body?: BodyInit;
  /** Sent as JSON, in place of `body`. */
  json?: unknown;
};

/** Asks the appliance; whatever is no success is thrown as an `ApplianceError`. */
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
    throw new ApplianceError(0, 'The appliance does not answer.', { cause: error });
  }
  if (!response.ok) {
    throw new ApplianceError(response.status, await explain(response, method, path));
  }
  return response;
};

/** Asks the appliance for JSON. */
export const getJSON = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await (await request('GET', path, { signal })).json()) as T;

/** What a person is told of anything that was thrown. */
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
    // A proxy's page, or nothing: the status has to do.
  }
  return `The appliance answered ${String(response.status)} to ${method} ${path}.`;
};
