import { nameValidationSchema as libraryNameSchema } from 'ui-lib/common/components/ui/formik/validationSchemas';

export * from 'ui-lib/common/components/ui/formik/validationSchemas';

/**
 * The library's rules for a cluster's name. The library compares it with other clusters only if Red
 * Hat's DNS is used. At a site, two clusters with the same name and base domain would also share
 * DNS names.
 */
export const nameValidationSchema: typeof libraryNameSchema = (t, usedNames, baseDomain, ...rest) =>
  libraryNameSchema(t, usedNames, baseDomain, ...rest).test(
    'is-name-free',
    'A cluster with this name and base domain exists already',
    (name?: string) => !name || !usedNames.includes(`${name}.${baseDomain ?? ''}`),
  );
