package bmc

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// TableRow is a row of a table of servers: the desired state of a server, or the error in the row.
type TableRow struct {
	Line     int     `json:"line"` // line number in the table, from 1
	Desired  Desired `json:"-"`
	InfraEnv string  `json:"-"` // name or id
	Err      error   `json:"-"`
	machine  machine
}

// The columns of a table without a header.
var tableColumns = []string{"name", "address", "username", "password", "boot_mac", "infra_env", "skip_verify",
	"boot_mode"}

// columnAliases maps other column names to the names of columns. The other names are in lower case,
// without blanks, hyphens and underscores.
var columnAliases = map[string]string{
	"name": "name", "host": "name", "hostname": "name", "server": "name",
	"address": "address", "bmc": "address", "bmcaddress": "address", "url": "address",
	"username": "username", "user": "username", "bmcusername": "username", "login": "username",
	"password": "password", "bmcpassword": "password",
	"bootmac": "boot_mac", "mac": "boot_mac", "bootmacaddress": "boot_mac", "macaddress": "boot_mac",
	"infraenv": "infra_env", "infraenvid": "infra_env",
	"skipverify": "skip_verify", "disablecertificateverification": "skip_verify", "insecure": "skip_verify",
	"bootmode": "boot_mode",
}

// tableComment begins a line that is no row.
const tableComment = '#'

// maxTableRows limits the rows of a table.
const maxTableRows = 2_000

// ReadTable parses a pasted table of servers: CSV with commas, semicolons or tabs, with or without
// a header. An address without a scheme gets the scheme redfish-virtualmedia. If the table cannot
// be parsed, ReadTable returns a *RequestError. An error in a row is returned in that row.
func ReadTable(r io.Reader) ([]TableRow, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	content := strings.TrimPrefix(string(text), "\ufeff")
	reader := csv.NewReader(strings.NewReader(content))
	reader.Comma = separator(content)
	reader.FieldsPerRecord, reader.TrimLeadingSpace, reader.Comment = -1, reader.Comma != '\t', tableComment
	columns := tableColumns
	var rows []TableRow
	names := map[string]int{}
	for begun := false; ; begun = true {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil,
				&RequestError{Reason: fmt.Sprintf("The table can't be read: %s; put values with commas or quotes in "+
					"double quotes.", err)}
		}
		if !begun {
			if header, ok := readHeader(record); ok {
				columns = header
				continue
			}
		}
		if len(rows) == maxTableRows {
			return nil, &RequestError{Reason: fmt.Sprintf("The table has more than %d rows; split it.",
				maxTableRows)}
		}
		line, _ := reader.FieldPos(0)
		row := readRow(columns, record)
		row.Line = line
		if other := names[row.Desired.Name]; other > 0 && row.Err == nil {
			row.Err = fmt.Errorf("line %d also has the name %s", other, row.Desired.Name)
		}
		names[row.Desired.Name] = line
		if row.Err == nil {
			row.Err = row.duplicateOf(rows)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, &RequestError{Reason: "The table has no rows; its columns are " + strings.Join(tableColumns, ",") +
			"."}
	}
	return rows, nil
}

// separator returns the character between the values of a table: the first of the possible ones.
// Neither the name of a server, which is the first value, nor the name of a column contains one. A
// password may.
func separator(table string) rune {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, string(tableComment)) {
			continue
		}
		if i := strings.IndexAny(line, "\t;,"); i >= 0 {
			return rune(line[i])
		}
	}
	return ','
}

// duplicateOf returns an error if an earlier row is the same machine.
func (r TableRow) duplicateOf(rows []TableRow) error {
	for _, other := range rows {
		if shared := r.machine.shared(other.machine); shared != "" && other.Err == nil {
			return fmt.Errorf("line %d is the same machine: both have %s", other.Line, shared)
		}
	}
	return nil
}

// readHeader parses the column names. It returns false if the row is not a header.
func readHeader(record []string) ([]string, bool) {
	columns := make([]string, len(record))
	for i, cell := range record {
		columns[i] = columnAliases[strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(cell))]
	}
	return columns, slices.Contains(columns, "address") && slices.Contains(columns, "name")
}

func readRow(columns, record []string) TableRow {
	var row TableRow
	d := &row.Desired
	if len(record) > len(columns) {
		row.Err = fmt.Errorf("the row has %d columns, but only %d are defined: %s", len(record), len(columns),
			strings.Join(columns, ","))
	}
	for i, cell := range record[:min(len(record), len(columns))] {
		cell = strings.TrimSpace(cell)
		switch columns[i] {
		case "name":
			d.Name = cell
		case "address":
			if d.Address = cell; cell != "" && !strings.Contains(cell, ":/") {
				d.Address = "redfish-virtualmedia://" + cell
			}
		case "username":
			d.Username = cell
		case "password":
			d.Password = cell
		case "boot_mac":
			d.BootMAC = cell
		case "infra_env":
			row.InfraEnv = cell
		case "boot_mode":
			d.BootMode = cell
		case "skip_verify":
			truth, err := parseBool(cell)
			if err != nil {
				row.Err = errors.Join(row.Err, err)
			}
			d.SkipVerify = truth
		}
	}
	checked, err := d.validated()
	if err == nil {
		row.Desired, row.machine = checked, checked.machine()
	}
	row.Err = errors.Join(row.Err, err)
	return row
}

func parseBool(cell string) (bool, error) {
	switch strings.ToLower(cell) {
	case "", "no", "n":
		return false, nil
	case "yes", "y", "x":
		return true, nil
	}
	truth, err := strconv.ParseBool(strings.ToLower(cell))
	if err != nil {
		return false, fmt.Errorf("skip_verify is %q; use true or false", cell)
	}
	return truth, nil
}
