import { Dropdown, DropdownItem, DropdownList, Label, MenuToggle } from '@patternfly/react-core';
import { useState } from 'react';
import { useNavigate } from 'react-router-dom-v5-compat';
import { useAccess } from './AccessProvider';

const roleNames = { viewer: 'viewer', operator: 'operator', admin: 'administrator' };

/** The name of the person at the page, with the links to the accounts and to log out. */
export const UserMenu = () => {
  const { caller, open, leave } = useAccess();
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  if (open) {
    return (
      <Label status="warning" data-testid="no-authentication">
        No authentication
      </Label>
    );
  }
  return (
    <Dropdown
      isOpen={isOpen}
      onOpenChange={setOpen}
      onSelect={() => {
        setOpen(false);
      }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          variant="plainText"
          isExpanded={isOpen}
          aria-label={`Account ${caller.name}`}
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          {caller.name} ({roleNames[caller.role]})
        </MenuToggle>
      )}
    >
      <DropdownList>
        <DropdownItem
          onClick={() => {
            navigate('/access');
          }}
        >
          {caller.role === 'admin' ? 'Accounts and tokens' : 'My account'}
        </DropdownItem>
        <DropdownItem onClick={leave}>Log out</DropdownItem>
      </DropdownList>
    </Dropdown>
  );
};
