#!/bin/sh
echo relay
