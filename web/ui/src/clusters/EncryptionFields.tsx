import { Checkbox, FormGroup, Radio, TextArea } from '@patternfly/react-core';
import { Hint } from './Hint';
import { groupsOf, type NewCluster } from './newCluster';

type Props = {
  cluster: NewCluster;
  set: (change: Partial<NewCluster>) => void;
  /** Why the Tang servers can't be used; "" if they can. */
  problem: string;
  onLeave: () => void;
};

const groups = { masters: 'Control-plane nodes', workers: 'Workers', arbiters: 'Arbiter' };

/** Whose disks are encrypted in a new cluster, and with which key. */
export const EncryptionFields = ({ cluster, set, problem, onLeave }: Props) => {
  const { encrypted } = cluster;
  return (
    <>
      <FormGroup label="Encryption of installation disks" role="group" isInline>
        {groupsOf(cluster.controlPlanes).map((group) => (
          <Checkbox
            key={group}
            id={`new-encrypt-${group}`}
            label={groups[group]}
            isChecked={encrypted.includes(group)}
            onChange={(_event, isOn) => {
              set({ encrypted: isOn ? [...encrypted, group] : encrypted.filter((one) => one !== group) });
            }}
          />
        ))}
      </FormGroup>
      {encrypted.length > 0 && (
        <FormGroup label="Key of the disks" role="radiogroup" isInline>
          <Radio
            id="new-tpm"
            name="encryption"
            label="TPM v2 of the host"
            isChecked={cluster.encryption === 'tpmv2'}
            onChange={() => {
              set({ encryption: 'tpmv2' });
            }}
          />
          <Radio
            id="new-with-tang"
            name="encryption"
            label="Tang servers"
            isChecked={cluster.encryption === 'tang'}
            onChange={() => {
              set({ encryption: 'tang' });
            }}
          />
        </FormGroup>
      )}
      {encrypted.length > 0 && cluster.encryption === 'tang' && (
        <FormGroup label="Tang servers" fieldId="new-tang" isRequired>
          <TextArea
            id="new-tang"
            rows={3}
            value={cluster.tang}
            validated={problem ? 'error' : 'default'}
            aria-describedby="new-tang-hint"
            onBlur={onLeave}
            onChange={(_event, value) => {
              set({ tang: value });
            }}
          />
          <Hint id="new-tang-hint" problem={problem}>
            One server a line: its URL, a space, its thumbprint.
          </Hint>
        </FormGroup>
      )}
    </>
  );
};
