import { useState } from 'react';
import {
  Button,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  Nav,
  NavItem,
  NavList,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from '@patternfly/react-core';
import MoonIcon from '@patternfly/react-icons/dist/esm/icons/moon-icon';
import SunIcon from '@patternfly/react-icons/dist/esm/icons/sun-icon';
import { Link, useLocation, type LinkProps } from 'react-router-dom-v5-compat';
import { useIsLimited } from '../access/AccessProvider';
import { UserMenu } from '../access/UserMenu';
import { shareOf } from '../osimages/describe';
import { useUploadViews } from '../osimages/UploadsProvider';
import { Mark } from './Mark';
import { StatusButton } from './StatusButton';
import { chooseTheme, preferredTheme } from './theme';

const Home = (props: Omit<LinkProps, 'to'>) => <Link {...props} to="/" />;

const pages: { path: string; name: string; isOfSite?: boolean }[] = [
  { path: '/', name: 'Overview', isOfSite: true },
  { path: '/assisted-installer/clusters', name: 'Clusters' },
  { path: '/hosted', name: 'Hosted', isOfSite: true },
  { path: '/hosts', name: 'Hosts' },
  { path: '/servers', name: 'Servers', isOfSite: true },
  { path: '/os-images', name: 'OS images' },
  { path: '/networks', name: 'Networks' },
  { path: '/mirror', name: 'Mirror' },
  { path: '/doctor', name: 'Doctor', isOfSite: true },
  { path: '/ams', name: 'OCM', isOfSite: true },
  { path: '/settings', name: 'Settings', isOfSite: true },
  { path: '/reference', name: 'API' },
];

/** The links to the pages. The link to the OS images shows the progress of uploads. */
const Pages = () => {
  const { pathname } = useLocation();
  const isLimited = useIsLimited();
  const shown = pages.filter(({ isOfSite }) => !isOfSite || !isLimited);
  const share = shareOf(useUploadViews());
  return (
    <Nav variant="horizontal" aria-label="Pages">
      <NavList>
        {shown.map(({ path, name }) => (
          <NavItem key={path} isActive={path === '/' ? pathname === path : pathname.startsWith(path)}>
            <Link to={path}>
              {name}
              {path === '/os-images' && share !== undefined && ` (uploading, ${String(share)} %)`}
            </Link>
          </NavItem>
        ))}
      </NavList>
    </Nav>
  );
};

/**
 * The masthead: the product's name as home link, the pages, the theme and the appliance's status.
 */
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
          <MastheadLogo component={Home} className="landfall-logo" aria-label="Landfall: home">
            <Mark />
            <span>Landfall</span>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isFullHeight>
          <ToolbarContent>
            <ToolbarItem isOverflowContainer>
              <Pages />
            </ToolbarItem>
            <ToolbarGroup align={{ default: 'alignEnd' }}>
              <ToolbarItem>
                <StatusButton />
              </ToolbarItem>
              <ToolbarItem>
                <UserMenu />
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
