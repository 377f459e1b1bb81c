import { Dropdown, DropdownGroup, DropdownItem, DropdownList, Label, MenuToggle } from '@patternfly/react-core';
import UserIcon from '@patternfly/react-icons/dist/esm/icons/user-icon';
import { useState } from 'react';
import { useNavigate } from 'react-router-dom-v5-compat';
import { useAccess } from './AccessProvider';
import { roleNames } from './api';

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
      popperProps={{ position: 'end' }}
      onSelect={() => {
        setOpen(false);
      }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          variant="plainText"
          icon={<UserIcon />}
          isExpanded={isOpen}
          aria-label={`Account ${caller.name}`}
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          {caller.name}
        </MenuToggle>
      )}
    >
      <DropdownGroup label={`Logged in as ${roleNames[caller.role]}`}>
        <DropdownList>
          <DropdownItem
            onClick={() => {
              navigate('/access');
            }}
          >
            {caller.role === 'admin' ? 'Accounts and audit trail' : 'My account'}
          </DropdownItem>
          <DropdownItem onClick={leave}>Log out</DropdownItem>
        </DropdownList>
      </DropdownGroup>
    </Dropdown>
  );
};
