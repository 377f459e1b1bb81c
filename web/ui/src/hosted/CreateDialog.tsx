import {
  Alert,
  Button,
  ExpandableSection,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  NumberInput,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import { sentenceOf } from '../shell/request';
import { createCluster, type NewCluster, type Overview } from './api';

/** The dialog to create a hosted cluster: three fields, and the rest behind "More". */
export const CreateDialog = ({ overview, onClose }: { overview: Overview; onClose: () => void }) => {
  const profiles = [...new Set(overview.management_clusters.flatMap(({ profiles }) => profiles ?? []))];
  const [wanted, setWanted] = useState<NewCluster>({
    name: '',
    version: overview.versions[0] ?? '',
    profile: profiles[0] ?? '',
    nodes: 2,
    group: 'site',
    location: 'site',
    prefix: '',
  });
  const [failure, setFailure] = useState('');
  const set = (change: Partial<NewCluster>) => {
    setWanted({ ...wanted, ...change });
  };
  const create = async () => {
    try {
      await createCluster({ ...wanted, name: wanted.name.trim() });
      onClose();
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
  };
  const text = (key: 'name' | 'profile' | 'group' | 'location' | 'prefix', label: string) => (
    <FormGroup label={label} fieldId={`hosted-${key}`} isRequired={key === 'name'}>
      <TextInput
        id={`hosted-${key}`}
        autoComplete="off"
        value={wanted[key]}
        onChange={(_event, value) => {
          set({ [key]: value });
        }}
      />
    </FormGroup>
  );
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Create a hosted cluster">
      <ModalHeader title="Create a hosted cluster" />
      <ModalBody>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            void create();
          }}
        >
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {text('name', 'Name')}
          <FormGroup label="Version" fieldId="hosted-version">
            <FormSelect
              id="hosted-version"
              value={wanted.version}
              onChange={(_event, value) => {
                set({ version: value });
              }}
            >
              {overview.versions.map((version) => (
                <FormSelectOption key={version} value={version} label={version} />
              ))}
            </FormSelect>
          </FormGroup>
          <FormGroup label="Nodes" fieldId="hosted-nodes">
            <NumberInput
              id="hosted-nodes"
              value={wanted.nodes}
              min={0}
              max={500}
              inputAriaLabel="Nodes"
              minusBtnAriaLabel="One node less"
              plusBtnAriaLabel="One node more"
              onMinus={() => {
                set({ nodes: wanted.nodes - 1 });
              }}
              onPlus={() => {
                set({ nodes: wanted.nodes + 1 });
              }}
              onChange={(event) => {
                set({ nodes: Number((event.target as HTMLInputElement).value) });
              }}
            />
          </FormGroup>
          <ExpandableSection toggleText="More">
            {text('profile', 'Hardware profile of the nodes; empty: no nodes')}
            {text('prefix', 'First label of the domain; empty: from the name')}
            {text('group', 'Resource group')}
            {text('location', 'Management cluster, if there are several')}
          </ExpandableSection>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={wanted.name.trim() === ''} onClick={() => void create()}>
          Create
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
