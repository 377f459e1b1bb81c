import { useState } from 'react';
import {
  Button,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from '@patternfly/react-core';
import MoonIcon from '@patternfly/react-icons/dist/esm/icons/moon-icon';
import SunIcon from '@patternfly/react-icons/dist/esm/icons/sun-icon';
import { Link, type LinkProps } from 'react-router-dom-v5-compat';
import { Mark } from './Mark';
import { StatusButton } from './StatusButton';
import { chooseTheme, preferredTheme } from './theme';

const Home = (props: Omit<LinkProps, 'to'>) => <Link {...props} to="/assisted-installer/clusters" />;

/** The masthead: the product's name as the way home, the theme and the appliance's status. */
export const Header = () => {
  const [theme, setTheme] = useState(preferredTheme);
  const other = theme === 'dark' ? 'light' : 'dark';
  const switchTheme = () => {
    chooseTheme(other);
    setTheme(other);
  };
  return (
    <Masthead className="landfall-masthead" display={{ default: 'inline' }}>
      <MastheadMain>
        <MastheadBrand>
          <MastheadLogo component={Home} className="landfall-logo" aria-label="Landfall: all clusters">
            <Mark />
            <span>Landfall</span>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isFullHeight>
          <ToolbarContent>
            <ToolbarGroup align={{ default: 'alignEnd' }}>
              <ToolbarItem>
                <StatusButton />
              </ToolbarItem>
              <ToolbarItem>
                <Button
                  variant="plain"
                  aria-label={`Switch to the ${other} theme`}
                  icon={theme === 'dark' ? <SunIcon /> : <MoonIcon />}
                  onClick={switchTheme}
                />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
};
