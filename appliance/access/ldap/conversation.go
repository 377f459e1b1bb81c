package ldap

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"landfall/appliance/access/external"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
)

// connection is a connection that ends with its context.
type connection struct {
	*ldap.Conn
	stop func() bool
}

func (c connection) Close() {
	c.stop()
	_ = c.Conn.Close()
}

// connect connects to a server, with TLS unless the options permit a plain connection.
func (d *Directory) connect(ctx context.Context, server *url.URL) (connection, error) {
	port := server.Port()
	if port == "" {
		port = map[string]string{"ldap": "389", "ldaps": "636"}[server.Scheme]
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return connection{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	limited := &limitedConn{raw, maxAnswer}
	config := &tls.Config{RootCAs: d.authorities, ServerName: server.Hostname(), MinVersion: tls.VersionTLS12}
	if server.Scheme == "ldaps" {
		secure := tls.Client(limited, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			stop()
			return connection{}, errors.Join(fmt.Errorf("TLS failed: %w", err), raw.Close())
		}
		conn := ldap.NewConn(secure, true)
		conn.Start()
		return connection{conn, stop}, nil
	}
	conn := ldap.NewConn(limited, false)
	conn.Start()
	made := connection{conn, stop}
	if !d.options.Plain {
		if err := conn.StartTLS(config); err != nil {
			made.Close()
			return connection{}, fmt.Errorf("StartTLS failed: %w", err)
		}
	}
	return made, nil
}

// limitedConn limits the bytes that a server can send.
type limitedConn struct {
	net.Conn
	left int
}

var errTooLong = fmt.Errorf("the server sent more than %d bytes", maxAnswer)

func (c *limitedConn) Read(to []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(to[:min(len(to), c.left)])
	c.left -= n
	return n, err
}

// conversation is one login over one connection. Its errors are for people if they have a kind;
// the others mean that the server does not answer properly.
type conversation struct {
	*Directory
	conn connection
}

// subjects are attributes that identify a person permanently, in contrast to the DN: those of RFC
// 4530 (OpenLDAP), Active Directory, FreeIPA and 389 Directory Server.
func subjects() []string { return []string{"entryUUID", "objectGUID", "ipaUniqueID", "nsUniqueId"} }

// find searches a person and the person's groups. It returns the person's DN too.
func (c conversation) find(secret, name string) (external.Person, string, error) {
	options := c.options
	if options.BindDN != "" {
		if err := c.conn.Bind(options.BindDN, secret); ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
			return external.Person{}, "", fault.New(fault.Unavailable, "the directory rejects the account %s; correct "+
				"ldap.bind_dn and the password in the file of ldap.bind_password_file", options.BindDN)
		} else if err != nil {
			return external.Person{}, "", err
		}
	}
	attributes := append(subjects(), options.NameAttribute)
	if options.GroupAttribute != "" {
		attributes = append(attributes, options.GroupAttribute)
	}
	// A second entry is requested only to notice it.
	entries, err := c.search("ldap.base_dn", options.BaseDN, fill(options.UserFilter, name, ""), 2, attributes)
	if err != nil {
		return external.Person{}, "", err
	}
	if len(entries) > 1 {
		return external.Person{}, "", fault.New(fault.Unavailable, "the directory has several entries for %q; make "+
			"ldap.user_filter or ldap.base_dn more specific", name)
	}
	if len(entries) == 0 {
		// This bind fails. Without it, a short answer would reveal that the name does not exist.
		return external.Person{}, "cn=" + rand.Text() + "," + options.BaseDN, nil
	}
	entry := entries[0]
	if dn, err := ldap.ParseDN(entry.DN); err != nil || !c.base.AncestorOfFold(dn) {
		return external.Person{}, "", fmt.Errorf("it answered with the entry %q, which is not below ldap.base_dn",
			entry.DN)
	}
	person := external.Person{Issuer: c.Issuer(), Subject: subject(entry), Name: value(entry, options.NameAttribute)}
	if err := external.CheckName(person.Name); err != nil {
		return external.Person{}, "", fault.New(fault.Unavailable, "the attribute %s of %s is unusable: %v; set "+
			"ldap.name_attribute to an attribute with the person's name", options.NameAttribute, entry.DN, err)
	}
	person.Groups, err = c.groups(entry, person.Name)
	return person, entry.DN, err
}

// value returns the first value of an attribute. The names of attributes have no case.
func value(entry *ldap.Entry, attribute string) string {
	return entry.GetEqualFoldAttributeValue(attribute)
}

func subject(entry *ldap.Entry) string {
	for _, attribute := range subjects() {
		id := value(entry, attribute)
		if attribute == "objectGUID" {
			id = hex.EncodeToString([]byte(id)) // 16 bytes
		}
		if id != "" {
			return id
		}
	}
	return strings.ToLower(entry.DN)
}

func (c conversation) groups(entry *ldap.Entry, name string) ([]string, error) {
	var groups []string
	if c.options.GroupAttribute != "" {
		groups = entry.GetEqualFoldAttributeValues(c.options.GroupAttribute)
	}
	if c.options.GroupFilter == "" {
		return groups, nil
	}
	base, key := c.options.GroupBaseDN, "ldap.group_base_dn"
	if base == "" {
		base, key = c.options.BaseDN, "ldap.base_dn"
	}
	// "1.1" requests no attributes (RFC 4511, section 4.5.1.8).
	entries, err := c.search(key, base, fill(c.options.GroupFilter, name, entry.DN), maxGroups, []string{"1.1"})
	for _, group := range entries {
		groups = append(groups, group.DN)
	}
	return groups, err
}

// search returns the entries of a subtree. It does not follow references to other servers, which
// would get the passwords.
func (c conversation) search(key, base, filter string, limit int, attributes []string) ([]*ldap.Entry, error) {
	request := ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, limit,
		int(serverTime.Seconds()), false, filter, attributes, nil)
	request.EnforceSizeLimit = true
	result, err := c.conn.Search(request)
	switch {
	case err == nil:
		return result.Entries, nil
	case limit == 2 && (errors.Is(err, ldap.ErrSizeLimitExceeded) ||
		ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded)):
		return []*ldap.Entry{nil, nil}, nil // more than one
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultSizeLimitExceeded, ldap.LDAPResultTimeLimitExceeded,
		ldap.LDAPResultAdminLimitExceeded), errors.Is(err, ldap.ErrSizeLimitExceeded):
		return nil, fault.New(fault.Unavailable,
			"the directory ended the search for %s at a limit; make the filter and %s "+
				"more specific, or raise the limit of the account that searches", filter, key)
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax):
		return nil, fault.New(fault.Unavailable,
			"the directory has no subtree %q; correct %s, or let the account that "+
				"searches read it", base, key)
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultOperationsError,
		ldap.LDAPResultStrongAuthRequired, ldap.LDAPResultInappropriateAuthentication):
		return nil, fault.New(fault.Unavailable,
			"the directory does not permit the search below %q; set ldap.bind_dn to an "+
				"account that may search", base)
	case ldap.IsErrorWithCode(err, ldap.LDAPResultReferral):
		return nil, fmt.Errorf("it refers to another server for %q; name that server in ldap.url", base)
	}
	return nil, err
}

// adReason is the reason in Active Directory's message for a failed bind.
var adReason = regexp.MustCompile(`\bdata ([0-9a-f]+)\b`)

// verify verifies a password by a bind.
func (c conversation) verify(dn, password string) error {
	err := c.conn.Bind(dn, password)
	if !ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultNoSuchObject,
		ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultInvalidDNSyntax) {
		return err
	}
	// Active Directory gives these reasons only to those who know the password, except 775.
	if reason := adReason.FindStringSubmatch(err.Error()); reason != nil {
		switch reason[1] {
		case "532", "773":
			return fault.New(fault.Forbidden,
				"the password in the directory must be changed; change it there, then log in "+
					"here")
		case "533", "701":
			return fault.New(fault.Forbidden,
				"the account in the directory is disabled or has ended; ask its administrator")
		case "775":
			return fault.New(fault.Forbidden, "the account in the directory is locked; ask its administrator")
		}
	}
	return people.ErrCredentials
}
