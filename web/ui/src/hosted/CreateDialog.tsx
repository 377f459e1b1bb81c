import { ExpandableSection, FormGroup, FormSection, FormSelect, FormSelectOption } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { createCluster, type NewCluster, type Overview } from './api';
import { isNodeCount, NodeCount, type Count } from './NodeCount';

/** The dialog to create a hosted cluster: three fields, and the rest behind "More". */
export const CreateDialog = ({ overview, onClose }: { overview: Overview; onClose: () => void }) => {
  const [wanted, setWanted] = useState<Omit<NewCluster, 'nodes'>>({
    name: '',
    version: overview.versions[0] ?? '',
    profile: overview.management_clusters.flatMap(({ profiles }) => profiles ?? [])[0] ?? '',
    group: '',
    location: '',
    prefix: '',
  });
  const [nodes, setNodes] = useState<Count>(2);
  const set = (change: Partial<NewCluster>) => {
    setWanted({ ...wanted, ...change });
  };
  const text = (key: 'name' | 'profile' | 'group' | 'location' | 'prefix', label: string, help?: string) => (
    <TextField
      id={`hosted-${key}`}
      label={label}
      help={help}
      isRequired={key === 'name'}
      value={wanted[key]}
      onChange={(value) => {
        set({ [key]: value });
      }}
    />
  );
  return (
    <FormDialog
      title="Create a hosted cluster"
      action="Create"
      isComplete={wanted.name.trim() !== '' && isNodeCount(nodes)}
      onSend={() => createCluster({ ...wanted, nodes: Number(nodes), name: wanted.name.trim() })}
      onClose={onClose}
    >
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
        <NodeCount id="hosted-nodes" label="Nodes" value={nodes} onChange={setNodes} />
      </FormGroup>
      <ExpandableSection toggleText="More">
        <FormSection>
          {text('profile', 'Hardware profile of the nodes', 'Empty: the cluster gets no nodes.')}
          {text('prefix', 'First label of the domain', 'Empty: it is made from the name.')}
          {text('group', 'Resource group', 'Empty: site.')}
          {text('location', 'Management cluster', 'Empty: the one with the fewest hosted clusters.')}
        </FormSection>
      </ExpandableSection>
    </FormDialog>
  );
};
