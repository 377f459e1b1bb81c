import { nameValidationSchema as libraryNameSchema } from 'ui-lib/common/components/ui/formik/validationSchemas';

export * from 'ui-lib/common/components/ui/formik/validationSchemas';

/**
 * The library's rules for a cluster's name, which compare it with the other clusters' only where Red Hat's own DNS is used: two
 * clusters of one name and base domain would be looked for under the same DNS names at a site, too.
 */
export const nameValidationSchema: typeof libraryNameSchema = (t, usedNames, baseDomain, ...rest) =>
  libraryNameSchema(t, usedNames, baseDomain, ...rest).test(
    'is-name-free',
    'There is a cluster of this name and base domain already',
    (name?: string) => !name || !usedNames.includes(`${name}.${baseDomain ?? ''}`),
  );
