/** The parts of the API's OpenAPI 3 document that the page uses. */
export type Document = {
  info: { title: string; version: string; description?: string };
  servers?: { url: string }[];
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
};

type Described = {
  operationId: string;
  summary?: string;
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>;
  'x-landfall-addition'?: boolean;
};

export type Schema = {
  $ref?: string;
  type?: string;
  format?: string;
  enum?: unknown[];
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema;
  items?: Schema;
};

export type Parameter = { name: string; place: string; required: boolean; type: string };
export type Field = { name: string; depth: number; required: boolean; type: string };
export type Answer = { status: string; meaning: string; type: string };

export type Operation = {
  id: string;
  method: string;
  path: string;
  summary: string;
  added: boolean;
  parameters: Parameter[];
  body: Field[];
  bodyType: string;
  bodyFormat: string; // media type; '' without a body
  answersFile: boolean; // the answer is not JSON
  answers: Answer[];
};

export type Group = { name: string; operations: Operation[] };

const referred = /^#\/components\/schemas\/(.+)$/;

const nameOf = (schema: Schema): string | undefined => referred.exec(schema.$ref ?? '')?.[1];

/** The type of a schema in a few words: its name if it has one. */
export const typeOf = (schema: Schema | undefined): string => {
  if (!schema) {
    return '';
  }
  const name = nameOf(schema);
  if (name !== undefined) {
    return name;
  }
  if (schema.enum) {
    return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  }
  if (schema.type === 'array') {
    return `list of ${typeOf(schema.items) || 'anything'}`;
  }
  if (schema.type === 'object' && schema.additionalProperties) {
    return `map of ${typeOf(schema.additionalProperties) || 'anything'}`;
  }
  return [schema.type ?? 'anything', schema.format].filter(Boolean).join(', ');
};

/** The maximum depth of nested fields. */
const deepest = 3;

/** The fields of a schema, each after its parent. A recursive schema is not expanded again. */
export const fieldsOf = (document: Document, schema: Schema | undefined): Field[] => {
  const visit = (at: Schema, depth: number, opened: string[]): Field[] => {
    const name = nameOf(at);
    if (at.type === 'array' && at.items) {
      return visit(at.items, depth, opened);
    }
    if (name !== undefined) {
      const found = document.components.schemas[name];
      return found && !opened.includes(name) ? visit(found, depth, [...opened, name]) : [];
    }
    if (depth >= deepest) {
      return [];
    }
    return Object.entries(at.properties ?? {})
      .sort(([a], [b]) => a.localeCompare(b))
      .flatMap(([field, inner]) => [
        { name: field, depth, required: at.required?.includes(field) ?? false, type: typeOf(inner) },
        ...visit(inner, depth + 1, opened),
      ]);
  };
  return schema ? visit(schema, 0, []) : [];
};

const contentOf = (content: Record<string, { schema: Schema }> | undefined): Schema | undefined =>
  Object.values(content ?? {})[0]?.schema;

const operationOf = (document: Document, method: string, path: string, described: Described): Operation => {
  const body = contentOf(described.requestBody?.content);
  return {
    id: described.operationId,
    method: method.toUpperCase(),
    path: (document.servers?.[0]?.url ?? '') + path,
    summary: described.summary ?? '',
    added: described['x-landfall-addition'] ?? false,
    parameters: (described.parameters ?? []).map(({ name, in: place, required, schema }) => ({
      name,
      place,
      required: required ?? false,
      type: typeOf(schema),
    })),
    body: fieldsOf(document, body),
    bodyType: typeOf(body),
    bodyFormat: Object.keys(described.requestBody?.content ?? {})[0] ?? '',
    answersFile: Object.entries(described.responses).some(
      ([status, { content }]) =>
        status.startsWith('2') && Object.keys(content ?? {}).some((type) => type !== 'application/json'),
    ),
    answers: Object.entries(described.responses).map(([status, { description, content }]) => ({
      status,
      meaning: description,
      type: typeOf(contentOf(content)),
    })),
  };
};

const order = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/**
 * The operations that contain all words in id, path or summary, grouped by the first noun of their
 * path.
 */
export const groupsOf = (document: Document, search: string): Group[] => {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Operation[]>();
  for (const path of Object.keys(document.paths).sort()) {
    const noun = path.split('/')[2] ?? path;
    const operations = Object.entries(document.paths[path] ?? {})
      .map(([method, described]) => operationOf(document, method, path, described))
      .filter(({ id, path: at, summary }) => {
        const text = `${id} ${at} ${summary}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    if (operations.length > 0) {
      groups.set(noun, [...(groups.get(noun) ?? []), ...operations]);
    }
  }
  return [...groups].map(([name, operations]) => ({ name, operations }));
};

const placeholder = (name: string): string => name.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();

/** The required fields of a body as JSON, with placeholders as values. */
const exampleOf = (fields: readonly Field[]): string => {
  const values = fields
    .filter(({ depth, required }) => depth === 0 && required)
    .map(({ name, type }): [string, unknown] => {
      const first = /^"([^"]*)" \|/.exec(type)?.[1];
      return [name, first ?? (/^(integer|number)/.test(type) ? 0 : type === 'boolean' ? false : placeholder(name))];
    });
  return JSON.stringify(Object.fromEntries(values));
};

/**
 * A line for a shell that calls the operation. Placeholders are in capital letters; the token comes
 * from the variable LANDFALL_TOKEN. Certificates of the appliance's own authority need its file.
 */
export const curlLine = ({ method, path, parameters, body, bodyFormat, answersFile }: Operation, origin: string) => {
  const query = parameters
    .filter(({ place, required }) => place === 'query' && required)
    .map(({ name }) => `${name}=${placeholder(name)}`)
    .join('&');
  const url = origin + path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => placeholder(name)) + (query && `?${query}`);
  const parts = ['curl -fsS'];
  if (origin.startsWith('https:')) {
    parts.push('--cacert ca.crt');
  }
  if (method !== 'GET') {
    parts.push(`-X ${method}`);
  }
  parts.push('-H "Authorization: Bearer $LANDFALL_TOKEN"');
  for (const { name } of parameters.filter(({ place, required }) => place === 'header' && required)) {
    parts.push(`-H '${name}: ${placeholder(name)}'`);
  }
  if (bodyFormat === 'application/json') {
    parts.push(`-H 'Content-Type: application/json' -d '${exampleOf(body)}'`);
  } else if (bodyFormat === 'multipart/form-data') {
    const field = body.find(({ depth }) => depth === 0)?.name ?? 'file';
    parts.push(`-F ${field}=@FILE`);
  } else if (bodyFormat !== '') {
    parts.push(`-H 'Content-Type: ${bodyFormat}' --data-binary @FILE`);
  }
  if (answersFile) {
    parts.push('-o FILE');
  }
  return [...parts, `'${url}'`].join(' ');
};
