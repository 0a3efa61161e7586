autocmd BufRead,BufNewFile *.blu setfiletype blu
