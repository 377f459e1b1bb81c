import { Button, Checkbox, Content, Label, TextInput } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { useAct } from '../shell/useAct';
import { addRelease, removeRelease, type Release } from './api';
import { Field } from './Field';
import { Setting } from './Setting';
import { isRemovable, offeredBy } from './words';

const nameOf = ({ openshift_version: version, cpu_architecture: architecture }: Release) =>
  `OpenShift ${version} (${architecture})`;

/** The releases that clusters can be installed with. */
export const Releases = ({ releases, changed }: { releases: Release[]; changed: () => void }) => {
  const { act, failure } = useAct(changed);
  const [release, setRelease] = useState('');
  const [isDefault, setDefault] = useState(false);
  const [removed, setRemoved] = useState<Release>();
  const mayChange = useMay('admin');
  return (
    <Setting
      id="releases"
      title="Releases"
      about="The OpenShift versions that clusters can be installed with. The mirror holds their images."
      failure={failure}
    >
      {releases.length > 0 ? (
        <ReleaseTable releases={releases} mayChange={mayChange} onRemove={setRemoved} />
      ) : (
        <Content component="p" data-testid="no-release">
          No release yet: no cluster can be created.
        </Content>
      )}
      {mayChange && (
        <div className="landfall-row">
          <Field
            id="release-field"
            label="Add a release"
            hint="The pull spec of the release image. The appliance reads its version through the mirror rules."
            problem=""
            options={
              <Checkbox
                id="release-default"
                label="Offer this version first for new clusters"
                isChecked={isDefault}
                onChange={(_, checked) => {
                  setDefault(checked);
                }}
              />
            }
            isChanged={release.trim() !== ''}
            action="Add the release"
            done="Added."
            onSave={() =>
              act(() =>
                addRelease(release.trim(), isDefault).then(() => {
                  setRelease((typed) => (typed === release ? '' : typed));
                  setDefault(false);
                }),
              )
            }
          >
            <TextInput
              id="release-field"
              placeholder="quay.io/openshift-release-dev/ocp-release@sha256:…"
              value={release}
              onChange={(_, text) => {
                setRelease(text);
              }}
            />
          </Field>
        </div>
      )}
      {removed && (
        <Confirm
          title={`Remove ${nameOf(removed)}?`}
          action="Remove"
          onConfirm={() => void act(() => removeRelease(removed))}
          onClose={() => {
            setRemoved(undefined);
          }}
        >
          New clusters can no longer use this version. Installed clusters run on.
        </Confirm>
      )}
    </Setting>
  );
};

type TableProps = { releases: Release[]; mayChange: boolean; onRemove: (release: Release) => void };

const ReleaseTable = ({ releases, mayChange, onRemove }: TableProps) => (
  <Table aria-label="Releases" variant="compact">
    <Thead>
      <Tr>
        <Th width={15}>Version</Th>
        <Th width={15}>State</Th>
        <Th>Image</Th>
        <Th width={15}>Set by</Th>
        {mayChange && <Th screenReaderText="Actions" />}
      </Tr>
    </Thead>
    <Tbody>
      {releases.map((release) => (
        <Tr key={nameOf(release)} data-testid="release">
          <Td dataLabel="Version">
            {release.openshift_version} {release.cpu_architecture} {release.default && <Label isCompact>Default</Label>}
          </Td>
          <Td dataLabel="State" modifier="breakWord">
            <ReleaseState release={release} />
          </Td>
          <Td dataLabel="Image" modifier="breakWord">
            {release.url}
          </Td>
          <Td dataLabel="Set by">{offeredBy[release.source]}</Td>
          {mayChange && (
            <Td isActionCell>
              {isRemovable(release) && (
                <Button
                  variant="link"
                  isInline
                  isDanger
                  aria-label={`Remove ${nameOf(release)}`}
                  onClick={() => {
                    onRemove(release);
                  }}
                >
                  Remove
                </Button>
              )}
            </Td>
          )}
        </Tr>
      ))}
    </Tbody>
  </Table>
);

const states = {
  '': { text: 'Ready', status: 'success' },
  ready: { text: 'Ready', status: 'success' },
  checking: { text: 'Checking', status: 'info' },
  failed: { text: 'Failed', status: 'danger' },
} as const;

const ReleaseState = ({ release: { state = '', message } }: { release: Release }) => {
  const { text, status } = states[state];
  return (
    <>
      <Label isCompact status={status}>
        {text}
      </Label>
      {message && <Content component="small">{message}</Content>}
    </>
  );
};
