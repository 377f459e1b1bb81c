package bmc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseAddress(t *testing.T) {
	for text, expected := range map[string]Address{
		"redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1": {Scheme: "redfish-virtualmedia",
			URL: "https://192.0.2.7", System: "/redfish/v1/Systems/1"},
		"redfish-virtualmedia+http://192.0.2.7:8000": {Scheme: "redfish-virtualmedia",
			URL: "http://192.0.2.7:8000"},
		"redfish-virtualmedia+https://bmc.site.test/redfish/v1": {Scheme: "redfish-virtualmedia",
			URL: "https://bmc.site.test"},
		"idrac-virtualmedia://[fd00::7]/redfish/v1/Systems/System.E.1": {Scheme: "idrac-virtualmedia",
			URL: "https://[fd00::7]", System: "/redfish/v1/Systems/System.E.1"},
		"ilo5-virtualmedia://[fd00::7]:8443/redfish/v1/Systems/1/": {Scheme: "ilo5-virtualmedia",
			URL: "https://[fd00::7]:8443", System: "/redfish/v1/Systems/1"},
		"redfish://192.0.2.7": {Scheme: "redfish", URL: "https://192.0.2.7",
			NetworkBoot: true},
		"https://192.0.2.7:":      {Scheme: "https", URL: "https://192.0.2.7"},
		" http://bmc-7/redfish/ ": {Scheme: "http", URL: "http://bmc-7"},
		"redfish-uefihttp+http://b_7/redfish/v1/Systems/1": {Scheme: "redfish-uefihttp", URL: "http://b_7",
			System: "/redfish/v1/Systems/1", HTTPBoot: true},
		"idrac-redfish+http://b_7": {Scheme: "idrac-redfish", URL: "http://b_7",
			NetworkBoot: true},
	} {
		address, err := ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, expected, address, text)
	}
	for text, sentence := range map[string]string{
		"":                                    "is empty",
		"192.0.2.7":                           "has no scheme, so it means IPMI",
		"ipmi://192.0.2.7":                    "has the scheme ipmi, which is not supported",
		"libvirt:192.0.2.7":                   "has the scheme libvirt",
		"libvirt://192.0.2.7:6233/":           "has the scheme libvirt",
		"irmc://192.0.2.7":                    "has the scheme irmc",
		"redfish-virtualmedia+ftp://x":        "after the + must be http or https",
		"redfish://root:calvin@192.0.2.7":     "contains a user name",
		"redfish://192.0.2.7/ui":              "has the path /ui",
		"redfish://192.0.2.7/redfish/v1?x=1":  "has a query",
		"redfish://":                          `has the host ""`,
		"redfish://192.0.2.7:99999999999999/": "ports are 1 to 65535",
		"redfish://a b/":                      "can't be read",
	} {
		_, err := ParseAddress(text)
		require.ErrorContains(t, err, sentence, text)
		require.NotContains(t, err.Error(), "calvin")
	}
}

func TestDesired_validation(t *testing.T) {
	good := Desired{Name: "n1", Address: "redfish://192.0.2.7", Username: "root", Password: "x"}
	for _, c := range []struct {
		field, sentence string
		alter           func(*Desired)
	}{
		{"name", `The name "" of the server is invalid`, func(d *Desired) { d.Name = " " }},
		{"name", "letters, digits", func(d *Desired) { d.Name = "a\nb" }},
		{"address", "not supported", func(d *Desired) { d.Address = "ipmi://x" }},
		{"username", "user name for the BMC of n1 is missing", func(d *Desired) { d.Username = "" }},
		{"password", "password for the BMC of n1 is missing", func(d *Desired) { d.Password = "" }},
		{"boot_mac", `The boot MAC address "x" is invalid`, func(d *Desired) { d.BootMAC = "x" }},
		{"ca", "is not a PEM certificate", func(d *Desired) { d.CA = "x" }},
		{"boot_mode", `The boot mode "bios" of n1 is invalid`, func(d *Desired) { d.BootMode = "bios" }},
		{"infra_env_id", "has no image to boot", func(d *Desired) { d.Boot = true }},
		{"image_url", "has a query", func(d *Desired) { d.ImageURL = "http://x/y.iso?api_key=z" }},
	} {
		d := good
		c.alter(&d)
		_, err := d.validated()
		refused := new(RequestError)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, c.field, refused.Field)
		require.Contains(t, refused.Reason, c.sentence)
	}
	good.BootMAC = "52-54-00-AA-BB-CC"
	checked, err := good.validated()
	require.NoError(t, err)
	require.Equal(t, "52:54:00:aa:bb:cc", checked.BootMAC)
}

func TestCheckImageURL(t *testing.T) {
	require.NoError(t, CheckImageURL("http://192.0.2.1:8090/i/abcdefghijklmnop.iso"))
	for text, sentence := range map[string]string{
		"http://192.0.2.1/" + strings.Repeat("x", 250) + ".iso": "has 271 bytes, and many BMCs accept at most 255",
		"http://192.0.2.1/i/x":               "does not end in .iso",
		"http://192.0.2.1/x.iso?arch=x86_64": "has a query",
		"http://u:p@192.0.2.1/x.iso":         "a user name",
		"nfs://192.0.2.1/x.iso":              "must begin with http",
		"x.iso":                              "A BMC cannot fetch the image's URL",
	} {
		require.ErrorContains(t, CheckImageURL(text), sentence, text)
	}
}

func TestReadTable(t *testing.T) {
	rows, err := ReadTable(strings.NewReader("n1,192.0.2.1,root,\"a,b\",52:54:00:00:00:01,site,yes,UEFI\n\n# a " +
		"remark\nn2,[fd00::1]:443,root,x\n"))
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, Desired{Name: "n1", Address: "redfish-virtualmedia://192.0.2.1", Username: "root", Password: "a,b",
		BootMAC: "52:54:00:00:00:01", SkipVerify: true, BootMode: "UEFI"}, rows[0].Desired)
	require.Equal(t, "site", rows[0].InfraEnv)
	require.Equal(t, 4, rows[1].Line)
	require.NoError(t, rows[1].Err)

	rows, err = ReadTable(strings.NewReader("\ufeffBMC Address;Host;Boot " +
		"MAC;User;Password;Rack\r\nidrac-virtualmedia://h7;n7;52-54-00-00-00-07;root;x;12\r\n"))
	require.NoError(t, err)
	require.NoError(t, rows[0].Err)
	require.Equal(t, "n7", rows[0].Desired.Name)
	require.Equal(t, "52:54:00:00:00:07", rows[0].Desired.BootMAC)

	rows, err = ReadTable(strings.NewReader(
		"n1\t192.0.2.1\troot\tx\nn1\t192.0.2.2\troot\tx\nn3\t192.0.2.3\troot\nn4\t192.0.2.4\troot\tx\t\t\tperhaps\nn5\t1\t2\t3\t\t\t\t\t9\n"))
	require.NoError(t, err)
	for i, sentence := range []string{"", "line 1 also has the name n1", "password for the BMC of n3 is missing",
		`skip_verify is "perhaps"`, "the row has 9 columns, but only 8 are defined"} {
		if sentence == "" {
			require.NoError(t, rows[i].Err)
		} else {
			require.ErrorContains(t, rows[i].Err, sentence)
		}
	}
	rows, err = ReadTable(strings.NewReader(
		"n1,192.0.2.1,root,x,52:54:00:00:00:01\nn2,192.0.2.2,root,x,52-54-00-00-00-01\nn3,192.0.2.1,root,x\n"))
	require.NoError(t, err)
	require.NoError(t, rows[0].Err)
	require.EqualError(t, rows[1].Err,
		"line 1 is the same machine: both have the boot MAC address 52:54:00:00:00:01")
	require.EqualError(t, rows[2].Err, "line 1 is the same machine: both have the BMC address 192.0.2.1")
	for text, sentence := range map[string]string{
		"":                          "has no rows",
		"name,address\n":            "has no rows",
		"a,\"b\nc":                  "can't be read",
		strings.Repeat("a\n", 2001): "more than 2000 rows",
	} {
		_, err := ReadTable(strings.NewReader(text))
		require.ErrorContains(t, err, sentence)
	}
}

func TestReadTable_separators(t *testing.T) {
	for name, text := range map[string]string{
		"commas":                  "n1,192.0.2.1,root,a;b\tc\n",
		"commas after a remark":   "# name; address\n\nn1,192.0.2.1,root,a;b\tc\n",
		"commas in quotes":        `"n1","192.0.2.1","root","a;b	c"` + "\n",
		"commas and a header":     "name,address,username,password\nn1,192.0.2.1,root,a;b\tc\n",
		"semicolons":              "n1;192.0.2.1;root;\"a;b\tc\"\n",
		"semicolons and a header": "name;address;username;password\nn1;192.0.2.1;root;\"a;b\tc\"\n",
		"tabs":                    "n1\t192.0.2.1\troot\t\"a;b\tc\"\n",
		"tabs and a header":       "name\taddress\tusername\tpassword\nn1\t192.0.2.1\troot\t\"a;b\tc\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := ReadTable(strings.NewReader(text))
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.NoError(t, rows[0].Err)
			require.Equal(t, "a;b\tc", rows[0].Desired.Password)
		})
	}
}

func TestRetryAfter_dateUsesClockOfBMC(t *testing.T) {
	h := &response{header: http.Header{"Date": {"Thu, 01 Jan 1970 00:10:00 GMT"},
		"Retry-After": {"Thu, 01 Jan 1970 00:10:30 GMT"}}}
	require.Equal(t, 30*time.Second, h.retryAfter())
	h.header.Set("Retry-After", "7")
	require.Equal(t, 7*time.Second, h.retryAfter())
	h.header.Set("Retry-After", "soon")
	require.Zero(t, h.retryAfter())
}

func TestRedact(t *testing.T) {
	for text, expected := range map[string]string{
		`{"UserName":"root","Password":"cal\"vin"}`:               `{"UserName":"root","Password":"(hidden)"}`,
		"/images/1?api_key=ey.J&arch=x86_64":                      "/images/1?api_key=(hidden)&arch=x86_64",
		"http://a/byapikey/ey.J-_x/4.20/x86_64/full.iso":          "http://a/byapikey/(hidden)/4.20/x86_64/full.iso",
		"http://a/i/abcdefghijklmnop.iso":                         "http://a/i/abcd….iso",
		`Location: /redfish/v1/SessionService/Sessions/17`:        `Location: /redfish/v1/SessionService/Sessions/(hidden)`,
		`{"@odata.type":"#Session.v1_0_0.Session","Id":"s3cr3t"}`: `{"@odata.type":"#Session.v1_0_0.Session","Id":"(hidden)"}`,
		"the password is hunter2: hunter2":                        "the password is (hidden): (hidden)",
	} {
		require.Equal(t, expected, redact(text, "hunter2"))
	}
}
