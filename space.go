package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"gchat-hooks/gchat/space"
)

// runSpace serves the embedded space until ctx ends. Beyond loopback it demands a token, which its link carries.
func runSpace(ctx context.Context, out io.Writer, listen, data string) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	addr, _ := ln.Addr().(*net.TCPAddr)
	open := space.Options{Data: data}
	if addr == nil || !addr.IP.IsLoopback() {
		if open.Token, err = space.KeptToken(data); err != nil {
			return err
		}
	}
	s, err := space.Open(open)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, note := range s.Notes() {
		fmt.Fprintln(out, "note:", note)
	}
	base := "http://" + ln.Addr().String()
	local := base
	if addr != nil && addr.IP.IsUnspecified() {
		local = fmt.Sprintf("http://127.0.0.1:%d", addr.Port)
	}
	fmt.Fprintf(out, "page:  %s\n\nfor the hooks on this machine:\n", s.PageURL(base))
	fmt.Fprintf(out, "  export GOOGLE_CHAT_WEBHOOK_URL='%s'\n", s.WebhookURL(local))
	fmt.Fprintf(out, "  export GCHAT_API_ENDPOINT='%s'\n", s.APIEndpoint(local))
	fmt.Fprintf(out, "  export GCHAT_ALLOWED_USERS='%s'\n", space.Human)
	return space.Serve(ctx, ln, s)
}
