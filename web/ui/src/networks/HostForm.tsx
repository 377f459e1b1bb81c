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
import { bondModes, toYAML, topInterface, type Card, type Described, type Family, type Host } from './hosts';

type Props = { id: string; described: Described; onChange: (described: Described) => void };

/** A host's network, in the form or as YAML. */
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
      <Cards id={id} cards={host.cards} onChange={(cards) => { change({ cards }); }} />
      {yaml === undefined ? (
        <>
          <Links id={id} host={host} change={change} />
          <Addresses id={`${id}-ipv4`} title="IPv4" auto="DHCP" example="192.0.2.10/24" family={host.v4} onChange={(v4) => { change({ v4 }); }} />
          <Addresses id={`${id}-ipv6`} title="IPv6" auto="automatic" example="2001:db8::a/64" family={host.v6} onChange={(v6) => { change({ v6 }); }} />
          <Grid hasGutter md={6}>
            <Text id={`${id}-dns`} label="Name servers" value={host.dns} hint="With commas between them." onChange={(dns) => { change({ dns }); }} />
            <Text id={`${id}-search`} label="Search domains" value={host.search} onChange={(search) => { change({ search }); }} />
          </Grid>
          <div>
            <Button variant="link" isInline onClick={() => { onChange({ host, yaml: toYAML(host) }); }}>
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

type CardsProps = { id: string; cards: Card[]; onChange: (cards: Card[]) => void };

const Cards = ({ id, cards, onChange }: CardsProps) => {
  const replace = (place: number, part: Partial<Card>) => {
    onChange(cards.map((card, i) => (i === place ? { ...card, ...part } : card)));
  };
  return (
    <FormGroup label="Network cards" role="group" fieldId={`${id}-cards`}>
      {cards.map((card, place) => (
        <Grid hasGutter key={place} className="pf-v6-u-mb-sm">
          <GridItem span={6}>
            <TextInput
              aria-label={`MAC address ${String(place + 1)}`}
              placeholder="52:54:00:12:34:56"
              value={card.mac}
              onChange={(_, mac) => { replace(place, { mac }); }}
            />
          </GridItem>
          <GridItem span={4}>
            <TextInput
              aria-label={`Interface name ${String(place + 1)}`}
              value={card.name}
              onChange={(_, name) => { replace(place, { name }); }}
            />
          </GridItem>
          <GridItem span={2}>
            {cards.length > 1 && (
              <Button variant="link" onClick={() => { onChange(cards.filter((_, i) => i !== place)); }}>
                Remove
              </Button>
            )}
          </GridItem>
        </Grid>
      ))}
      <Button variant="link" isInline onClick={() => { onChange([...cards, { mac: '', name: `eth${String(cards.length)}` }]); }}>
        Add a card
      </Button>
      <Hint text="The MAC address finds the card; the name is what the rest of this description calls it." />
    </FormGroup>
  );
};

type LinksProps = { id: string; host: Host; change: (part: Partial<Host>) => void };

const Links = ({ id, host, change }: LinksProps) => (
  <Grid hasGutter md={4}>
    <FormGroup label="Bond" fieldId={`${id}-bond`}>
      <FormSelect id={`${id}-bond`} value={host.bond} onChange={(_, bond) => { change({ bond }); }}>
        <FormSelectOption value="" label="None: the first card" />
        {bondModes.map((mode) => (
          <FormSelectOption key={mode} value={mode} label={`All cards, ${mode}`} />
        ))}
      </FormSelect>
    </FormGroup>
    <Text id={`${id}-vlan`} label="VLAN" value={host.vlan} hint={host.vlan && `The interface is ${topInterface(host)}.`} onChange={(vlan) => { change({ vlan: vlan.trim() }); }} />
    <Text id={`${id}-mtu`} label="MTU" value={host.mtu} onChange={(mtu) => { change({ mtu: mtu.trim() }); }} />
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
      <FormGroup label={title} fieldId={`${id}-way`}>
        <FormSelect
          id={`${id}-way`}
          aria-label={`${title} addresses`}
          value={family.way}
          onChange={(_, way) => {
            onChange({ ...family, way: way as Family['way'] });
          }}
        >
          <FormSelectOption value="off" label="none" />
          <FormSelectOption value="auto" label={auto} />
          <FormSelectOption value="static" label="given here" />
        </FormSelect>
      </FormGroup>
    </GridItem>
    {family.way === 'static' && (
      <>
        <GridItem md={5}>
          <Text id={`${id}-address`} label={`${title} address`} value={family.address} hint={`Such as ${example}.`} onChange={(address) => { onChange({ ...family, address }); }} />
        </GridItem>
        <GridItem md={4}>
          <Text id={`${id}-gateway`} label={`${title} gateway`} value={family.gateway} onChange={(gateway) => { onChange({ ...family, gateway }); }} />
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
