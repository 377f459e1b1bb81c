import { asSentence } from './quantities';

/** An error response of the appliance; the message is a sentence for the user. */
export class ApplianceError extends Error {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
  /** The JSON object of the response; empty if there was none. */
  readonly body: Record<string, unknown>;

  constructor(status: number, message: string, body: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ApplianceError';
    this.status = status;
    this.body = body;
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
    throw new ApplianceError(0, 'The appliance does not respond.', {}, { cause: error });
  }
  if (!response.ok) {
    const body = await readObject(response);
    throw new ApplianceError(response.status, explain(body, response.status, method, path), body);
  }
  return response;
};

/** Requests JSON from the appliance. */
export const getJSON = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await (await request('GET', path, { signal })).json()) as T;

/** Requests JSON that the appliance may not have; null without it (404). */
export const findJSON = async <T>(path: string, signal?: AbortSignal): Promise<T | null> => {
  try {
    return await getJSON<T>(path, signal);
  } catch (error) {
    if (error instanceof ApplianceError && error.status === 404) {
      return null;
    }
    throw error;
  }
};

/** The text for the user of any thrown value. */
export const sentenceOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** The JSON object of a response; empty for a page of a proxy, or without a body. */
const readObject = async (response: Response): Promise<Record<string, unknown>> => {
  try {
    return ((await response.json()) as Record<string, unknown> | null) ?? {};
  } catch {
    return {};
  }
};

const explain = (body: Record<string, unknown>, status: number, method: string, path: string): string => {
  // The resource provider of hosted clusters has its own format.
  const inner = body.error as { message?: unknown; details?: { message: string }[] } | undefined;
  const details = inner?.details?.map(({ message }) => message).join(' ');
  for (const sentence of [body.reason, body.message, details, inner?.message]) {
    if (typeof sentence === 'string' && sentence !== '') {
      return asSentence(sentence);
    }
  }
  return `The appliance responded ${String(status)} to ${method} ${path}.`;
};
