import { useState, type Ref } from 'react';
import {
  Button,
  Dropdown,
  DropdownItem,
  DropdownList,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MenuToggle,
  type MenuToggleElement,
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
import { Link, useLocation, useNavigate, type LinkProps } from 'react-router-dom-v5-compat';
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
  { path: '/registry', name: 'Registry', isOfSite: true },
  { path: '/site-services', name: 'Site services', isOfSite: true },
  { path: '/doctor', name: 'Doctor', isOfSite: true },
  { path: '/ams', name: 'OCM', isOfSite: true },
  { path: '/settings', name: 'Settings', isOfSite: true },
  { path: '/reference', name: 'API' },
  { path: '/docs', name: 'Docs' },
];

/** The links to the pages. The link to the OS images shows the progress of uploads. */
const Pages = () => {
  const { pathname } = useLocation();
  const isLimited = useIsLimited();
  const shown = pages.filter(({ isOfSite }) => !isOfSite || !isLimited);
  const share = shareOf(useUploadViews());
  const isActive = (path: string) => (path === '/' ? pathname === path : pathname.startsWith(path));
  const nameOf = ({ path, name }: { path: string; name: string }) =>
    path === '/os-images' && share !== undefined ? `${name} (uploading, ${String(share)} %)` : name;
  return (
    <>
      <Nav variant="horizontal" aria-label="Pages" className="landfall-pages">
        <NavList>
          {shown.map((page) => (
            <NavItem key={page.path} isActive={isActive(page.path)}>
              <Link to={page.path}>{nameOf(page)}</Link>
            </NavItem>
          ))}
        </NavList>
      </Nav>
      <PagesMenu
        pages={shown.map((page) => ({ path: page.path, name: nameOf(page), isActive: isActive(page.path) }))}
      />
    </>
  );
};

/** The pages as a menu, for windows in which their links have no room. */
const PagesMenu = ({ pages: shown }: { pages: { path: string; name: string; isActive: boolean }[] }) => {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  return (
    <div className="landfall-pages-menu">
      <Dropdown
        isOpen={isOpen}
        onOpenChange={setOpen}
        isScrollable
        toggle={(ref: Ref<MenuToggleElement>) => (
          <MenuToggle
            ref={ref}
            isExpanded={isOpen}
            onClick={() => {
              setOpen(!isOpen);
            }}
          >
            {shown.find((page) => page.isActive)?.name ?? 'Pages'}
          </MenuToggle>
        )}
      >
        <DropdownList aria-label="Pages">
          {shown.map(({ path, name, isActive }) => (
            <DropdownItem
              key={path}
              isSelected={isActive}
              onClick={() => {
                setOpen(false);
                navigate(path);
              }}
            >
              {name}
            </DropdownItem>
          ))}
        </DropdownList>
      </Dropdown>
    </div>
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
