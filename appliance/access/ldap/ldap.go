// Package ldap logs people in with a directory of the site: an LDAP server, such as OpenLDAP,
// FreeIPA or Active Directory. The directory verifies the password (simple bind, RFC 4513, section
// 5.1). The appliance does not keep it.
//
// Design: docs/design.md#identity-providers.
package ldap

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"

	"landfall/appliance/access/external"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// RolesKey is the key of the configuration that maps groups to roles.
const RolesKey = "ldap.roles"

// Options configure a directory.
type Options struct {
	// URLs are servers of one directory: ldaps://, or ldap:// with StartTLS. If one is down, the
	// next is asked.
	URLs []string
	// Plain permits ldap:// without TLS. Passwords then pass the network in clear.
	Plain    bool
	CABundle string // a file with CA certificates on top of the system's; may be empty

	// BindDN and BindPasswordFile are the account that searches the directory. Without them, the
	// search is anonymous. The file is read for each login.
	BindDN, BindPasswordFile string

	// BaseDN is the subtree with the people. UserFilter finds a person in it; {name} is the name
	// that the person typed.
	BaseDN, UserFilter string
	// NameAttribute has the person's name, GroupAttribute the groups (may be empty).
	NameAttribute, GroupAttribute string
	// GroupFilter finds the person's groups in the subtree GroupBaseDN, on top of GroupAttribute;
	// {dn} is the person's DN, {name} the person's name. Both may be empty.
	GroupBaseDN, GroupFilter string

	// Rules name groups by their DNs, or by the value of the DN's first part (the CN).
	Rules external.Rules
}

// Limits of the conversation with the directory.
const (
	serverTime = 10 * time.Second // for all requests of a login to one server
	answerTime = 25 * time.Second // for all servers
	maxAnswer  = 4 << 20          // bytes of all answers of one login
	maxGroups  = 10_000
	maxName    = 256  // bytes
	maxSecret  = 1024 // bytes of a password
)

// Directory is a directory of people.
type Directory struct {
	options     Options
	servers     []*url.URL
	base        *ldap.DN
	authorities *x509.CertPool
}

// New returns a directory. It makes no connections.
func New(options Options) (*Directory, error) {
	d := &Directory{options: options}
	if len(options.URLs) == 0 {
		return nil, fmt.Errorf("ldap.url is missing; write the directory's URL")
	}
	for _, text := range options.URLs {
		server, err := url.Parse(text)
		if err != nil || server.Hostname() == "" || server.Scheme != "ldap" && server.Scheme != "ldaps" ||
			strings.Trim(server.Path, "/") != "" {
			return nil, fmt.Errorf("ldap.url has %q; write ldaps://HOST or ldap://HOST, with a port if it is another "+
				"than 636 or 389", text)
		}
		d.servers = append(d.servers, server)
	}
	var err error
	if d.base, err = ldap.ParseDN(options.BaseDN); err != nil || len(d.base.RDNs) == 0 {
		return nil, fmt.Errorf("ldap.base_dn is %q; write the DN of the subtree with the people, such as "+
			"ou=people,dc=example,dc=com", options.BaseDN)
	}
	for _, filter := range []struct{ key, text, placeholder string }{
		{"ldap.user_filter", options.UserFilter, "{name}"}, {"ldap.group_filter", options.GroupFilter, ""},
	} {
		if filter.key == "ldap.group_filter" && filter.text == "" {
			continue
		}
		_, err := ldap.CompileFilter(fill(filter.text, "a", "dc=a"))
		if err != nil || !strings.Contains(filter.text, filter.placeholder) {
			return nil,
				fmt.Errorf("%s is %q; write a filter of LDAP in parentheses, with {name} for the person's name, "+
					"such as (uid={name})", filter.key, filter.text)
		}
	}
	if options.NameAttribute == "" {
		return nil,
			fmt.Errorf("ldap.name_attribute is missing; write the attribute with the person's name, such as uid")
	}
	if options.BindDN != "" && options.BindPasswordFile == "" {
		return nil, fmt.Errorf("ldap.bind_password_file is missing; write the file with the password of ldap.bind_dn")
	}
	d.options.Rules.Same = sameGroup
	d.authorities, err = external.Authorities(options.CABundle)
	if err != nil {
		return nil, fmt.Errorf("ldap.ca_bundle: %w", err)
	}
	return d, nil
}

// fill replaces the placeholders of a filter. The values cannot change the filter's structure.
func fill(filter, name, dn string) string {
	return strings.NewReplacer("{name}", ldap.EscapeFilter(name), "{dn}", ldap.EscapeFilter(dn)).Replace(filter)
}

// sameGroup reports whether a group is the group that a rule names: by its DN, or by the value of
// the DN's first part.
func sameGroup(group, rule string) bool {
	dn, err := ldap.ParseDN(group)
	if err != nil || len(dn.RDNs) == 0 || len(dn.RDNs[0].Attributes) != 1 {
		return strings.EqualFold(group, rule)
	}
	if !strings.Contains(rule, "=") {
		return strings.EqualFold(dn.RDNs[0].Attributes[0].Value, rule)
	}
	named, err := ldap.ParseDN(rule)
	return err == nil && dn.EqualFold(named)
}

// Issuer identifies the directory in the accounts of its people.
func (d *Directory) Issuer() string { return "ldap:" + strings.ToLower(d.base.String()) }

// LogIn verifies a name and a password. The error is [people.ErrCredentials] if one of them is
// wrong. If the person is known but has no role, the error has the kind Forbidden and the person is
// returned with it.
func (d *Directory) LogIn(ctx context.Context, name, password string) (external.Person, error) {
	// A bind with an empty password is an anonymous one, which succeeds (RFC 4513, section 5.1.2).
	if name == "" || password == "" || len(name) > maxName || len(password) > maxSecret ||
		!utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return external.Person{}, people.ErrCredentials
	}
	var secret string
	if d.options.BindDN != "" {
		var err error
		if secret, err = external.ReadSecret(d.options.BindPasswordFile); err != nil {
			return external.Person{}, fault.New(fault.Unavailable, "ldap.bind_password_file cannot be used: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var failures []error
	for _, server := range d.servers {
		person, err := d.ask(ctx, server, secret, name, password)
		down, ok := errors.AsType[*serverError](err)
		if !ok {
			if err != nil {
				return person, err
			}
			return d.options.Rules.Apply(person, RolesKey)
		}
		failures = append(failures, down)
	}
	err := errors.Join(failures...)
	return external.Person{}, &fault.Error{Kind: fault.Unavailable, Err: err,
		Reason: fmt.Sprintf("the directory cannot be "+
			"used at the moment (%s); try again later, or log in with a local account",
			sentence.Clause(sentence.Line(err.Error())))}
}

// serverError is a server that does not answer properly. Another server of the directory may.
type serverError struct {
	server string
	cause  error
}

// longestReason is the maximum length of a server's own words in an error.
const longestReason = 200

func (e *serverError) Error() string {
	return e.server + ": " + sentence.Shorten(sentence.Clause(e.cause.Error()), longestReason)
}

func (e *serverError) Unwrap() error { return e.cause }

// ask logs a person in with one server.
func (d *Directory) ask(ctx context.Context, server *url.URL, secret, name, password string) (external.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	failed := func(err error) error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", serverTime)
		} else if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &serverError{server.Host, err}
	}
	conn, err := d.connect(ctx, server)
	if err != nil {
		return external.Person{}, failed(err)
	}
	defer conn.Close()
	c := conversation{d, conn}
	person, dn, err := c.find(secret, name)
	if err == nil {
		err = c.verify(dn, password)
	}
	if err == nil && person.Subject == "" {
		err = people.ErrCredentials // the directory has no such person, even if the bind succeeds
	}
	if err == nil || fault.KindOf(err) != 0 {
		return person, err
	}
	return external.Person{}, failed(err)
}
