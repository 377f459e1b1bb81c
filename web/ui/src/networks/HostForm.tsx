import {
  Button,
  Form,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  Grid,
  GridItem,
  HelperText,
  HelperTextItem,
  TextArea,
  TextInput,
} from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { bondModes, toYAML, topInterface, type NIC, type Described, type Family, type Host } from './hosts';

type Props = { id: string; described: Described; onChange: (described: Described) => void };

/** The form of a host's network, or its YAML. */
export const HostForm = ({ id, described, onChange }: Props) => {
  const { host, yaml } = described;
  const change = (part: Partial<Host>) => {
    onChange({ ...described, host: { ...host, ...part } });
  };
  return (
    <Form
      isWidthLimited={false}
      onSubmit={(event) => {
        event.preventDefault();
      }}
    >
      <NICs
        id={id}
        nics={host.nics}
        onChange={(nics) => {
          change({ nics });
        }}
      />
      {yaml === undefined ? (
        <>
          <Links id={id} host={host} change={change} />
          <Addresses
            id={`${id}-ipv4`}
            title="IPv4"
            auto="DHCP"
            example="192.0.2.10/24"
            family={host.v4}
            onChange={(v4) => {
              change({ v4 });
            }}
          />
          <Addresses
            id={`${id}-ipv6`}
            title="IPv6"
            auto="automatic"
            example="2001:db8::a/64"
            family={host.v6}
            onChange={(v6) => {
              change({ v6 });
            }}
          />
          <Grid hasGutter md={6}>
            <Text
              id={`${id}-dns`}
              label="Name servers"
              value={host.dns}
              hint="Separated by commas."
              onChange={(dns) => {
                change({ dns });
              }}
            />
            <Text
              id={`${id}-search`}
              label="Search domains"
              value={host.search}
              onChange={(search) => {
                change({ search });
              }}
            />
          </Grid>
          <div>
            <Button
              variant="link"
              isInline
              onClick={() => {
                onChange({ host, yaml: toYAML(host) });
              }}
            >
              Edit as YAML
            </Button>
          </div>
        </>
      ) : (
        <FormGroup label="nmstate YAML" fieldId={`${id}-yaml`}>
          <TextArea
            id={`${id}-yaml`}
            className="landfall-yaml"
            value={yaml}
            rows={18}
            resizeOrientation="vertical"
            spellCheck={false}
            onChange={(_, text) => {
              onChange({ host, yaml: text });
            }}
          />
        </FormGroup>
      )}
    </Form>
  );
};

type NICsProps = { id: string; nics: NIC[]; onChange: (nics: NIC[]) => void };

const NICs = ({ id, nics, onChange }: NICsProps) => {
  const replace = (place: number, part: Partial<NIC>) => {
    onChange(nics.map((nic, i) => (i === place ? { ...nic, ...part } : nic)));
  };
  return (
    <FormGroup label="NICs" role="group" fieldId={`${id}-nics`}>
      {nics.map((nic, place) => (
        <Grid hasGutter key={place} className="pf-v6-u-mb-sm">
          <GridItem span={6}>
            <TextInput
              aria-label={`MAC address ${String(place + 1)}`}
              placeholder="52:54:00:12:34:56"
              value={nic.mac}
              onChange={(_, mac) => {
                replace(place, { mac });
              }}
            />
          </GridItem>
          <GridItem span={4}>
            <TextInput
              aria-label={`Interface name ${String(place + 1)}`}
              value={nic.name}
              onChange={(_, name) => {
                replace(place, { name });
              }}
            />
          </GridItem>
          <GridItem span={2}>
            {nics.length > 1 && (
              <Button
                variant="link"
                onClick={() => {
                  onChange(nics.filter((_, i) => i !== place));
                }}
              >
                Remove
              </Button>
            )}
          </GridItem>
        </Grid>
      ))}
      <Button
        variant="link"
        isInline
        onClick={() => {
          onChange([...nics, { mac: '', name: `eth${String(nics.length)}` }]);
        }}
      >
        Add a NIC
      </Button>
      <Hint text="The MAC address identifies the NIC. The other settings refer to the NIC by its name." />
    </FormGroup>
  );
};

type LinksProps = { id: string; host: Host; change: (part: Partial<Host>) => void };

const Links = ({ id, host, change }: LinksProps) => (
  <Grid hasGutter md={4}>
    <FormGroup label="Bond" fieldId={`${id}-bond`}>
      <FormSelect
        id={`${id}-bond`}
        value={host.bond}
        onChange={(_, bond) => {
          change({ bond });
        }}
      >
        <FormSelectOption value="" label="None: the first NIC" />
        {bondModes.map((mode) => (
          <FormSelectOption key={mode} value={mode} label={`All NICs, ${mode}`} />
        ))}
      </FormSelect>
    </FormGroup>
    <Text
      id={`${id}-vlan`}
      label="VLAN"
      value={host.vlan}
      hint={host.vlan && `The interface is ${topInterface(host)}.`}
      onChange={(vlan) => {
        change({ vlan: vlan.trim() });
      }}
    />
    <Text
      id={`${id}-mtu`}
      label="MTU"
      value={host.mtu}
      onChange={(mtu) => {
        change({ mtu: mtu.trim() });
      }}
    />
  </Grid>
);

type AddressesProps = {
  id: string;
  title: string;
  auto: string;
  example: string;
  family: Family;
  onChange: (family: Family) => void;
};

const Addresses = ({ id, title, auto, example, family, onChange }: AddressesProps) => (
  <Grid hasGutter>
    <GridItem md={3}>
      <FormGroup label={title} fieldId={`${id}-method`}>
        <FormSelect
          id={`${id}-method`}
          aria-label={`${title} addresses`}
          value={family.method}
          onChange={(_, method) => {
            onChange({ ...family, method: method as Family['method'] });
          }}
        >
          <FormSelectOption value="off" label="none" />
          <FormSelectOption value="auto" label={auto} />
          <FormSelectOption value="static" label="static" />
        </FormSelect>
      </FormGroup>
    </GridItem>
    {family.method === 'static' && (
      <>
        <GridItem md={5}>
          <Text
            id={`${id}-address`}
            label={`${title} address`}
            value={family.address}
            hint={`Such as ${example}.`}
            onChange={(address) => {
              onChange({ ...family, address });
            }}
          />
        </GridItem>
        <GridItem md={4}>
          <Text
            id={`${id}-gateway`}
            label={`${title} gateway`}
            value={family.gateway}
            onChange={(gateway) => {
              onChange({ ...family, gateway });
            }}
          />
        </GridItem>
      </>
    )}
  </Grid>
);

type TextProps = { id: string; label: string; value: string; hint?: ReactNode; onChange: (text: string) => void };

const Text = ({ id, label, value, hint, onChange }: TextProps) => (
  <FormGroup label={label} fieldId={id}>
    <TextInput
      id={id}
      value={value}
      onChange={(_, text) => {
        onChange(text);
      }}
    />
    {hint && <Hint text={hint} />}
  </FormGroup>
);

const Hint = ({ text }: { text: ReactNode }) => (
  <FormHelperText>
    <HelperText>
      <HelperTextItem>{text}</HelperTextItem>
    </HelperText>
  </FormHelperText>
);
