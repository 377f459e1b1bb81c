import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defaultClientConditions, defineConfig } from 'vite';
import { compressedVariants } from './build/compress.ts';
import { replaceModules } from './build/replace.ts';
import { replacements } from './build/replacements.ts';
import { reword } from './build/reword.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const library = here('./node_modules/@openshift-assisted/ui-lib/lib');

/** Modules that only pages with uploads of files need. */
const ofUploads = /node_modules\/(react-dropzone|file-selector|attr-accept|prop-types)\/|\/FileUpload\//;

/** Modules of the library and its dependencies, which the other pages do not use. */
const ofWizard =
  /node_modules\/(@openshift-assisted|@reduxjs|axios|formik|i18next|lodash-es|react-i18next|yup)\/|\/uilib\//;

export default defineConfig({
  plugins: [
    replaceModules(library, replacements, here('./src/uilib')),
    reword(library, {
      // The tables read the inventory and the validations of each host once for each cell. With 250
      // hosts, that took seconds after each change of one of them, most of it for the names of the
      // keys. Each caller gets objects of its own, because some sort the lists in them.
      'common/utils.ts': {
        'export const stringToJSON = <T>(': `
          import { remember } from '${here('./src/uilib/remember.ts')}';
          const withCamelCase = remember((text: string) =>
            text.replace(/"([\\w-]+)":/g, (_match, key: string) => '"' + camelCase(key) + '":'),
          );
          export const stringToJSON = <T>(`,
        [`jsonString.replace(
        /"([\\w-]+)":/g,
        (_match, offset: string) => \`"\${camelCase(offset)}":\`,
      )`]: 'withCamelCase(jsonString)',
      },
      // Names of controls for screen readers.
      'common/components/ui/PopoverIcon.tsx': {
        '<Button\n      icon={': '<Button\n      aria-label="More information"\n      icon={',
        // A link without an address can't be reached with the keyboard.
        'component={component}': "component={component === 'a' ? 'button' : component}",
      },
      'ocm/components/clusterWizard/OperatorsBundle.tsx': {
        'selectableActionAriaLabelledby: checkboxId': 'selectableActionAriaLabel: bundle.title',
      },
      'common/components/clusterConfiguration/SecurityFields.tsx': {
        '<TextAreaField\n            name="sshPublicKey"': `<TextAreaField
            aria-label={t('ai:Host SSH Public Key for troubleshooting after installation')}
            name="sshPublicKey"`,
      },
      // The row of a host stays the same when others come before it, and so does its focus.
      'common/components/hosts/AITableMemo.tsx': {
        'key={`row-wrapper-${i}`}': 'key={(row as { id?: string }).id ?? i}',
      },
      'common/components/hosts/AITable.tsx': {
        '<Checkbox id={`select-${id}`} ': '<Checkbox id={`select-${id}`} aria-label="Select this host" ',
      },
      'common/components/hosts/FormatDiskCheckbox.tsx': {
        '<Checkbox\n': '<Checkbox\n        aria-label="Format this disk"\n',
      },
      'common/components/fetching/EventListFetch.tsx': {
        '<div className={className}>': '<div className={className} tabIndex={0} role="region" aria-label="Events">',
      },
      'ocm/components/clusterConfiguration/staticIp/components/FormViewNetworkWide/FormViewNetworkWideFields.tsx': {
        'name={`${fieldName}.ip`}': 'name={`${fieldName}.ip`}\n            aria-label="Address of the subnet"',
        'name={`${fieldName}.prefixLength`}': `
            name={\`\${fieldName}.prefixLength\`}
            aria-label="Length of the subnet's prefix"`,
      },
      // These buttons were visible only below a mouse, and only clicks on their icons did anything.
      'ocm/components/clusterConfiguration/staticIp/components/StaticIpHostsArray.tsx': {
        '({ onRemove, showRemoveButton, dataTestId })': '({ onRemove, dataTestId, name })',
        'icon={<MinusCircleIcon onClick={onRemove} data-testid={dataTestId} />}':
          'icon={<MinusCircleIcon />} onClick={onRemove} data-testid={dataTestId}',
        'aria-label="remove host"': 'aria-label={`Remove ${name}`}',
        "style={{ visibility: showRemoveButton ? 'visible' : 'hidden' }}": '',
        'dataTestId={`remove-host-${hostIdx}`}': 'dataTestId={`remove-host-${hostIdx}`} name={getHostName(hostIdx)}',
      },
      'ocm/components/clusterConfiguration/manifestsConfiguration/components/CustomManifest.tsx': {
        '  showRemoveButton,\n  dataTestId,\n}: {': '  dataTestId,\n  name,\n}: {',
        'icon={<MinusCircleIcon onClick={onRemove} />}': 'icon={<MinusCircleIcon />} onClick={onRemove}',
        'aria-label="remove manifest"': 'aria-label={`Remove ${name}`}',
        "style={{ visibility: showRemoveButton ? 'visible' : 'hidden' }}": '',
        'dataTestId={`remove-manifest-${manifestIdx}`}':
          'dataTestId={`remove-manifest-${manifestIdx}`} name={getManifestName(manifestIdx)}',
      },
      // A checkbox inside of a button can't be reached with the keyboard.
      'common/components/hosts/TableToolbar.tsx': {
        '      {actions}\n    </Dropdown>': '      <DropdownList>{actions}</DropdownList>\n    </Dropdown>',
        'data-testid="select-dropdown-toggle"\n        >\n':
          'data-testid="select-dropdown-toggle"\n aria-label="Select hosts"\n splitButtonItems={[\n',
        '</MenuToggleCheckbox>\n        </MenuToggle>': '</MenuToggleCheckbox>,\n        ]} />',
      },
      'ocm/components/clusters/ClusterPage.tsx': {
        'Cluster details not found': 'There is no image to boot hosts from',
        'Check to make sure the cluster-ID is valid. Otherwise, the cluster details may have been deleted.':
          'The cluster has no infra-env. Create one for it, or bind hosts to it, and reload this page.',
      },
      'ocm/components/clusterWizard/constants.ts': { 'Review and create': 'Review and install' },
      'ocm/components/clusters/ClusterBreadcrumbs.tsx': { 'Assisted Clusters': 'Clusters' },
    }),
    // PatternFly shows an empty editor in other elements than an editor with a text, so the first
    // character would replace the editor, which then has no focus. Here only the choice between an
    // upload and an empty text is in other elements, and typing ends that choice.
    reword(here('./node_modules/@patternfly/react-code-editor/dist/esm/components/CodeEditor'), {
      'CodeEditor.js': {
        '(isUploadEnabled || emptyState) && !value ? (':
          '(isUploadEnabled || emptyState) && showEmptyState && !value ? (',
        'const onModelChange = (value, event) => {':
          'const onModelChange = (value, event) => { setShowEmptyState(false);',
      },
    }),
    // The title of an alert is a heading below that of the page, not below one of level 3.
    reword(here('./node_modules/@patternfly/react-core/dist/esm/components/Alert'), {
      'Alert.js': { "component = 'h4'": "component = 'h2'" },
    }),
    // The editor must not make <style> elements: see src/uilib/monacoStyles.ts.
    reword(here('./node_modules/monaco-editor/esm/vs'), {
      'base/browser/dom.js': {
        "const style = document.createElement('style');": 'const style = styleElement();',
        "import * as browser from './browser.js';": `
          import * as browser from './browser.js';
          import { styleElement } from '${here('./src/uilib/monacoStyles.ts')}';`,
      },
      'base/browser/trustedTypes.js': {
        'const monacoEnvironment = globalThis.MonacoEnvironment;':
          'const monacoEnvironment = { createTrustedTypesPolicy: policy };',
        "import { onUnexpectedError } from '../common/errors.js';": `
          import { onUnexpectedError } from '../common/errors.js';
          import { policy } from '${here('./src/uilib/monacoStyles.ts')}';`,
      },
    }),
    react(),
    compressedVariants(),
  ],
  resolve: {
    // Use the library's sources instead of its CommonJS build: only then can modules be left out or
    // replaced.
    conditions: ['source', ...defaultClientConditions],
    alias: [
      { find: /^ui-lib\//, replacement: `${library}/` },
      { find: /^@monaco-editor\/loader$/, replacement: here('./src/uilib/monaco-loader.ts') },
      { find: /^@sentry\/browser$/, replacement: here('./src/uilib/sentry.ts') },
      { find: /^@patternfly\/react-code-editor$/, replacement: here('./src/uilib/code-editor.tsx') },
    ],
    dedupe: ['react', 'react-dom', 'react-redux', 'react-router-dom', 'react-i18next'],
  },
  define: {
    // The library reads settings from here; it needs none of them.
    'process.env': '{}',
  },
  build: {
    outDir: here('../../assets/ui'),
    emptyOutDir: true,
    target: 'es2022',
    chunkSizeWarningLimit: 4096,
    // Few files instead of one for each component: a request costs more than a few unused bytes.
    rolldownOptions: {
      // The library's indexes would load all its modules. Its modules only define things.
      treeshake: { moduleSideEffects: (id) => !id.startsWith(library) || id.endsWith('.css') },
      output: {
        codeSplitting: {
          groups: [
            { name: 'common', minShareCount: 3, priority: 3, test: (id) => !ofUploads.test(id) },
            { name: 'uploads', minShareCount: 2, priority: 2, test: ofUploads },
            { name: 'wizard', minShareCount: 2, priority: 2, test: ofWizard },
            { name: 'few', minShareCount: 2, priority: 1 },
          ],
        },
      },
    },
  },
  server: {
    // src/docs/files.ts has the documents beside the sources of the page.
    fs: { allow: ['../..'] },
    proxy: { '/api': process.env.LANDFALL_URL ?? 'http://127.0.0.1:8090' },
  },
});
