import {
  Alert,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
} from '@patternfly/react-core';
import { useState } from 'react';
import { listClusters } from '../clusters/list';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { useAnswer } from '../shell/useAnswer';
import { addManagement, checkManagement, type Lack, type NewManagement } from './api';

const empty = { consumer: '', cluster_id: '', base_domain: '', address: '', profiles: '', agent_image: '', layout: '' };

type Key = 'consumer' | 'base_domain' | 'address' | 'profiles' | 'agent_image';

const fields: { key: Key; label: string; help: string }[] = [
  { key: 'consumer', label: 'Name', help: 'Lower-case letters, digits and hyphens. It never changes.' },
  {
    key: 'base_domain',
    label: 'Base domain',
    help: 'The hosted clusters have their domains below it, for example hosted.example.com.',
  },
  {
    key: 'address',
    label: 'Address of the nodes',
    help: 'The control planes are reached at this address, on ports from 30000. Empty: through load balancers.',
  },
  {
    key: 'profiles',
    label: 'Hardware profiles',
    help: 'The values of the label landfall.io/hardware-profile on its Agents, separated by commas. Empty: any.',
  },
  {
    key: 'agent_image',
    label: 'Image of the agent',
    help: 'In the mirror, by its digest, for example registry.example.com/maestro@sha256:… It is needed to connect.',
  },
];

const requestOf = (wanted: typeof empty): NewManagement => {
  const address = wanted.address.trim();
  return {
    consumer: wanted.consumer.trim(),
    cluster_id: wanted.cluster_id,
    base_domain: wanted.base_domain.trim(),
    publish: address === '' && wanted.cluster_id === '' ? 'LoadBalancer' : 'NodePort',
    address,
    agent_image: wanted.agent_image.trim(),
    layout: wanted.layout,
    profiles: wanted.profiles
      .split(',')
      .map((profile) => profile.trim())
      .filter((profile) => profile !== ''),
  };
};

const everyCluster = (signal: AbortSignal) => listClusters([], signal);
const once = () => undefined;

/**
 * The dialog to use a cluster for the control planes of hosted clusters. It says what the cluster
 * lacks before the cluster is used.
 */
export const ManagementDialog = ({ onClose }: { onClose: () => void }) => {
  const [wanted, setWanted] = useState(empty);
  const [lacks, setLacks] = useState<Lack[]>();
  const clusters = useAnswer(everyCluster, once).answer ?? [];
  const set = (change: Partial<typeof empty>) => {
    setWanted({ ...wanted, ...change });
    setLacks(undefined);
  };
  const ofAppliance = wanted.cluster_id !== '';
  const send = async () => {
    const request = requestOf(wanted);
    if (lacks === undefined) {
      const found = await checkManagement(request);
      if (found.length > 0) {
        setLacks(found);
        throw new Error('This cluster does not run hosted clusters yet. The list says what it lacks.');
      }
    }
    await addManagement(request);
  };
  return (
    <FormDialog
      title="Use a cluster for control planes"
      action={lacks === undefined ? 'Check and use it' : 'Use it all the same'}
      isComplete={wanted.consumer.trim() !== '' && (ofAppliance || wanted.base_domain.trim() !== '')}
      onSend={send}
      onClose={onClose}
    >
      {lacks?.map(({ id, severity, sentence }) => (
        <Alert key={id} isInline isPlain variant={severity === 'error' ? 'danger' : 'warning'} title={sentence} />
      ))}
      <FormGroup label="Cluster" fieldId="management-cluster">
        <FormSelect
          id="management-cluster"
          value={wanted.cluster_id}
          onChange={(_event, value) => {
            set({ cluster_id: value, layout: '' });
          }}
        >
          <FormSelectOption value="" label="A cluster that another program installed" />
          {clusters
            .filter(({ status }) => status === 'installed')
            .map(({ id, name }) => (
              <FormSelectOption key={id} value={id} label={name} />
            ))}
        </FormSelect>
      </FormGroup>
      {fields.map(({ key, label, help }) => (
        <TextField
          key={key}
          id={`management-${key}`}
          label={label}
          help={ofAppliance && key !== 'consumer' && key !== 'agent_image' ? `${help} Empty: from the cluster.` : help}
          isRequired={key === 'consumer' || (key === 'base_domain' && !ofAppliance)}
          value={wanted[key]}
          onChange={(value) => {
            set({ [key]: value });
          }}
        />
      ))}
      <FormGroup label="Layout of its bundles" fieldId="management-layout">
        <FormSelect
          id="management-layout"
          aria-describedby="management-layout-help"
          value={wanted.layout}
          onChange={(_event, value) => {
            set({ layout: value });
          }}
        >
          <FormSelectOption value="" label={ofAppliance ? 'The one that fits the cluster' : 'Flat (default)'} />
          {ofAppliance && <FormSelectOption value="flat" label="Flat" />}
          <FormSelectOption value="nested" label="Nested" />
        </FormSelect>
        <FormHelperText>
          <HelperText>
            <HelperTextItem id="management-layout-help">
              Nested is for a cluster with the multicluster engine operator. It never changes.
            </HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </FormDialog>
  );
};
