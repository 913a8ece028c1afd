"""Invented rows in the shape of genai-prices' data.py; read as a syntax tree, never run."""

providers: list[Provider] = [
    Provider(
        id='anthropic',
        models=[
            ModelInfo(
                id='claude-3-opus-latest',
                match=ClauseStartsWith(starts_with='claude-3-opus'),
                context_window=200000,
                prices=[
                    ConditionalPrice(prices=ModelPrice(input_mtok=Decimal('15'), output_mtok=Decimal('75'))),
                    ConditionalPrice(
                        constraint=StartDateConstraint(start_date=datetime.date(2030, 1, 1)),
                        prices=ModelPrice(
                            input_mtok=Decimal('12'), output_mtok=Decimal('60'), cache_read_mtok=Decimal('1.2'), cache_write_mtok=Decimal('15')
                        ),
                    ),
                    ConditionalPrice(
                        constraint=StartDateConstraint(start_date=datetime.date(2030, 12, 1)),
                        prices=ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('2')),
                    ),
                    ConditionalPrice(
                        constraint=TimeOfDateConstraint(start_time=datetime.time(1, 0), end_time=datetime.time(4, 0)),
                        prices=ModelPrice(input_mtok=Decimal('99'), output_mtok=Decimal('99')),
                    ),
                ],
            ),
        ],
    ),
    Provider(
        id='openai',
        models=[
            ModelInfo(
                id='gpt-9-mini',
                context_window=400000,
                prices=ModelPrice(
                    input_mtok=TieredPrices(base=Decimal('0.5'), tiers=[Tier(start=300000, price=Decimal('1'))]),
                    output_mtok=Decimal('4'),
                    cache_read_mtok=Decimal('0.05'),
                ),
            ),
        ],
    ),
    Provider(
        id='openrouter',
        models=[
            ModelInfo(id='~openai/gpt-latest', context_window=400000, prices=ModelPrice()),
            ModelInfo(id='meta-llama/llama-9', context_window=64000, prices=ModelPrice(input_mtok=Decimal('0.1'), output_mtok=Decimal('0.2'))),
            ModelInfo(id='meta-llama/llama-9:free', context_window=64000, prices=ModelPrice()),
        ],
    ),
    Provider(id='nobody', models=[ModelInfo(id='gpt-9-nobody', context_window=1, prices=ModelPrice())]),
]
